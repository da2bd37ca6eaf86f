"""Turns a corpus once into an artefact of Parquet shards: from a file, or from documents in memory.

A file is streamed: memory holds one shard of documents at a time, and 8 bytes per document (25 while ids are
compared).
"""

import itertools
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.corpus import shard_bounds
from r2med_ray.corpus.duplicates import OnConflict, Rows, find_duplicates
from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.pieces import text_bytes
from r2med_ray.corpus.readers import read_documents
from r2med_ray.corpus.records import count_records, file_digest, read_texts
from r2med_ray.corpus.shards import from_table, ids_digest, table_digest, to_table
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifact_writer import ArtifactWriter
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.ids import IdReader, encodable
from r2med_ray.storage.keys import ArtifactKey, Json, fingerprint
from r2med_ray.storage.listing import SECONDS, made_for
from r2med_ray.types import DocId, Document

KIND = "corpus"
CONVERTER_VERSION = 1
"""Counts up when the same file gives other shards than before."""

DUPLICATES_FILE = "duplicates.parquet"


def convert_corpus(
    source: TaskSource,
    store: ArtifactStore,
    *,
    documents_per_shard: int,
    shards: int | None = None,
    on_conflict: OnConflict = "error",
) -> Artifact:
    """Return the artefact of a task's corpus, and make it if the store doesn't have it.

    Args:
        source: the task.
        store: the store that has or gets the artefact.
        documents_per_shard: rows of every shard but the last. A shard ends earlier where its texts would be huge; see
            `shard_bounds`.
        shards: replaces `documents_per_shard`: equal shards, at most this many.
        on_conflict: what happens to two texts under one id.

    Raises:
        DataError: the file has no document, or a bad one; names file and line.
    """
    path = source.files.corpus
    if next(read_texts(path, LAYOUTS[source.layout]), None) is None:
        raise DataError(f"{path}: holds no documents")
    key = corpus_key(source, documents_per_shard=documents_per_shard, shards=shards, on_conflict=on_conflict)
    documents_per_shard = key.inputs["documents_per_shard"]
    if store.find(key) is None:
        with store.create(key) as writer:
            began = time.monotonic()
            _convert(path, source.layout, writer, documents_per_shard, on_conflict)
            writer.attributes |= {**made_for(source.name, ""), SECONDS: time.monotonic() - began}
    return store.get(key)


def convert_documents(
    documents: Iterable[Document],
    store: ArtifactStore,
    *,
    name: str,
    documents_per_shard: int,
    shards: int | None = None,
    start_row: int = 0,
) -> Artifact:
    """Return the artefact of a corpus in memory, and make it if the store doesn't have it.

    The shards are those that `convert_corpus` makes of a file with these documents.

    Args:
        documents: the whole corpus, in the order of its rows.
        store: the store that has or gets the artefact.
        name: the name of the corpus in errors.
        documents_per_shard: rows of every shard but the last.
        shards: replaces `documents_per_shard`: equal shards, at most this many.
        start_row: number of the first row; the rows of a corpus that these documents are added to.

    Raises:
        DataError: there is no document, an id is empty, holds white space or comes twice, or a text has no UTF-8
            form; names the position, counted from 1, and the id.
    """
    rows = _checked(documents, name)
    if shards is not None:
        documents_per_shard = -(-len(rows) // shards)
    digests, start = [], start_row
    for batch in shard_bounds.cut(rows, documents_per_shard):
        digests.append(table_digest(to_table(batch, start_row=start)))
        start += len(batch)
    inputs = {"documents": fingerprint(digests), "converter": CONVERTER_VERSION}
    key = ArtifactKey(KIND, inputs | {"documents_per_shard": documents_per_shard})
    if store.find(key) is None:
        with store.create(key) as writer:
            began = time.monotonic()
            stored, _ = _write_shards(iter(rows), writer, documents_per_shard, start_row)
            _note(writer, stored, duplicate_rows=(), warnings=())
            writer.attributes |= {**made_for(name, ""), SECONDS: time.monotonic() - began}
    return store.get(key)


def corpus_key(
    source: TaskSource, *, documents_per_shard: int, shards: int | None, on_conflict: OnConflict
) -> ArtifactKey:
    """Return the key of a converted corpus. The file is read for the key. See `convert_corpus` for the arguments.

    The bytes of a shard are in the key only if they decide where a shard ends.
    """
    path = source.files.corpus
    if shards is not None:
        documents_per_shard = -(-count_records(path) // shards)
    return ArtifactKey(
        KIND,
        {
            "file": file_digest(path),
            "layout": source.layout,
            "converter": CONVERTER_VERSION,
            "documents_per_shard": documents_per_shard,
            "on_conflict": on_conflict,
            **(
                {"bytes_per_shard": shard_bounds.BYTES_PER_SHARD}
                if shard_bounds.is_cut_by_bytes(path, LAYOUTS[source.layout], documents_per_shard)
                else {}
            ),
        },
    )


def load_corpus(artifact: Artifact, *, start_row: int = 0) -> Corpus:
    """Return the corpus that an artefact of `convert_corpus` or `convert_documents` holds."""
    shards: list[CorpusShard] = []
    for index, stored in enumerate(artifact.attributes["shards"]):
        path = artifact.path(_shard_file(index))
        shards.append(CorpusShard(index=index, path=path, start_row=start_row, **stored))
        start_row += stored["num_rows"]
    return Corpus(
        key=artifact.name,
        digest=_corpus_digest(artifact),
        shards=tuple(shards),
        duplicate_rows=tuple(artifact.table(DUPLICATES_FILE)["row"].to_pylist()),
        seconds=artifact.attributes.get(SECONDS),
    )


def names_of(artifact: Artifact) -> list[str]:
    """Return the names by which keys of other artefacts call an artefact: for a corpus, the digest of its shards."""
    return [_corpus_digest(artifact)] if artifact.name.startswith(f"{KIND}/") else []


def _corpus_digest(artifact: Artifact) -> str:
    return fingerprint([shard["digest"] for shard in artifact.attributes["shards"]])


def _convert(
    path: Path, layout: str, writer: ArtifactWriter, documents_per_shard: int, on_conflict: OnConflict
) -> None:
    """Write the shards and the duplicate rows, and note the warnings about them."""
    ids = IdReader(path)
    shards, id_hashes = _write_shards(read_documents(path, LAYOUTS[layout], ids), writer, documents_per_shard)

    ends = np.cumsum([shard["num_rows"] for shard in shards])

    def read_rows(rows: Rows) -> Iterator[tuple[int, Document]]:
        index_of_row = np.searchsorted(ends, rows, side="right")
        for index in np.unique(index_of_row).tolist():
            of_shard = rows[index_of_row == index]
            table = _read_back(writer, index).take(of_shard - (ends[index] - shards[index]["num_rows"]))
            yield from zip(of_shard.tolist(), from_table(table), strict=True)

    def where(row: int) -> str:
        return next(itertools.islice(read_texts(path, LAYOUTS[layout]), row, None)).where

    duplicates = find_duplicates(
        np.frombuffer(id_hashes, np.int64),
        read_rows,
        on_conflict=on_conflict,
        ids_at_once=documents_per_shard,
        where=where,
    )
    warnings = [*ids.warnings(), *duplicates.warnings]
    _note(writer, shards, duplicate_rows=duplicates.rows, warnings=warnings)


def _write_shards(
    documents: Iterator[Document], writer: ArtifactWriter, documents_per_shard: int, start_row: int = 0
) -> tuple[list[dict[str, Json]], "array[int]"]:
    """Write documents as shards. Return row count and digests of each shard, and a 64-bit hash of each row's id."""
    id_hashes = array("q")
    shards: list[dict[str, Json]] = []
    for batch in shard_bounds.cut(documents, documents_per_shard):
        table = to_table(batch, start_row=start_row + len(id_hashes))
        writer.write_table(_shard_file(len(shards)), table)
        digests = {"digest": table_digest(table), "ids_digest": ids_digest(table["doc_id"])}
        shards.append({"num_rows": table.num_rows, **digests, "text_bytes": text_bytes(table)})
        id_hashes.extend(hash(document.doc_id) for document in batch)
    return shards, id_hashes


def _note(
    writer: ArtifactWriter, shards: Sequence[Json], *, duplicate_rows: Sequence[int], warnings: Sequence[str]
) -> None:
    """Write what `load_corpus` reads in addition to the shards."""
    writer.write_table(DUPLICATES_FILE, pa.table({"row": pa.array(duplicate_rows, pa.int64())}))
    writer.attributes |= {"shards": list(shards), "warnings": list(warnings)}


def _checked(documents: Iterable[Document], name: str) -> list[Document]:
    """Return the documents of a corpus in memory, after checks.

    Raises:
        DataError: see `convert_documents`.
    """
    ids = IdReader(Path(name))
    positions: dict[DocId, int] = {}
    rows: list[Document] = []
    for position, document in enumerate(documents, start=1):
        where = f"corpus {name!r}, document {position}"
        doc_id = ids.read(document.doc_id, where=where)
        if doc_id in positions:
            raise DataError(f"{where}: document {positions[doc_id]} has the id {doc_id!r} too; ids must be unique")
        positions[doc_id] = position
        for text in (document.title, document.text):
            encodable(text, where=f"{where}, id {doc_id!r}")
        rows.append(document)
    if not rows:
        raise DataError(f"corpus {name!r}: there are no documents")
    return rows


def _read_back(writer: ArtifactWriter, index: int) -> pa.Table:
    with writer.filesystem.open_input_file(writer.files[_shard_file(index)].path) as stream:
        return pq.ParquetFile(stream).read()


def _shard_file(index: int) -> str:
    return f"{index:05d}.parquet"
