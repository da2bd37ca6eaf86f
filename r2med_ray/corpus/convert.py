"""Turns a corpus file once into Parquet shards, an artefact of its own.

The file is streamed: one shard of documents is held at a time, and 8 bytes per document (25 while ids are compared).
"""

import itertools
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.corpus.duplicates import OnConflict, Rows, find_duplicates
from r2med_ray.corpus.ids import IdReader
from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.readers import read_documents
from r2med_ray.corpus.records import count_records, file_digest, read_texts
from r2med_ray.corpus.shards import from_table, table_digest, to_table
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError
from r2med_ray.storage.artifacts import Artifact, ArtifactKey, ArtifactStore, ArtifactWriter, fingerprint
from r2med_ray.types import Corpus, CorpusShard, Document

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
    """Return the artefact of a task's corpus, and make it where the store doesn't have it.

    Args:
        source: the task.
        store: where the artefact is, or goes.
        documents_per_shard: rows of every shard but the last.
        shards: takes its place: equal shards, at most this many.
        on_conflict: what happens to two texts under one id.

    Raises:
        DataError: the file has no documents, or a bad one; names file and line.
    """
    path = source.files.corpus
    if next(read_texts(path, LAYOUTS[source.layout]), None) is None:
        raise DataError(f"{path}: holds no documents")
    key = corpus_key(source, documents_per_shard=documents_per_shard, shards=shards, on_conflict=on_conflict)
    documents_per_shard = key.inputs["documents_per_shard"]
    if store.find(key) is None:
        with store.create(key) as writer:
            _convert(path, source.layout, writer, documents_per_shard, on_conflict)
    return store.get(key)


def corpus_key(
    source: TaskSource, *, documents_per_shard: int, shards: int | None, on_conflict: OnConflict
) -> ArtifactKey:
    """Return the key of a converted corpus; its file is read for it. See `convert_corpus` for the arguments."""
    path = source.files.corpus
    if shards is not None:
        documents_per_shard = -(-count_records(path) // shards)
    return ArtifactKey(
        "corpus",
        {
            "file": file_digest(path),
            "layout": source.layout,
            "converter": CONVERTER_VERSION,
            "documents_per_shard": documents_per_shard,
            "on_conflict": on_conflict,
        },
    )


def load_corpus(artifact: Artifact) -> Corpus:
    """Return the corpus that an artefact of `convert_corpus` holds."""
    shards: list[CorpusShard] = []
    start_row = 0
    for index, stored in enumerate(artifact.attributes["shards"]):
        path = artifact.path(_shard_file(index))
        shards.append(CorpusShard(index=index, path=path, start_row=start_row, **stored))
        start_row += stored["num_rows"]
    return Corpus(
        key=artifact.name,
        digest=fingerprint([shard.digest for shard in shards]),
        shards=tuple(shards),
        duplicate_rows=tuple(artifact.table(DUPLICATES_FILE)["row"].to_pylist()),
    )


def _convert(
    path: Path, layout: str, writer: ArtifactWriter, documents_per_shard: int, on_conflict: OnConflict
) -> None:
    """Write shards and duplicate rows, and note what is said about them."""
    ids = IdReader(path)
    documents = read_documents(path, LAYOUTS[layout], ids)
    id_hashes = array("q")
    shards: list[dict[str, object]] = []
    while batch := list(itertools.islice(documents, documents_per_shard)):
        table = to_table(batch, start_row=len(id_hashes))
        writer.write_table(_shard_file(len(shards)), table)
        shards.append({"num_rows": table.num_rows, "digest": table_digest(table)})
        id_hashes.extend(hash(document.doc_id) for document in batch)

    def read_rows(rows: Rows) -> Iterator[tuple[int, Document]]:
        for index in np.unique(rows // documents_per_shard).tolist():
            of_shard = rows[rows // documents_per_shard == index]
            table = _read_back(writer, index).take(of_shard - index * documents_per_shard)
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
    writer.write_table(DUPLICATES_FILE, pa.table({"row": pa.array(duplicates.rows, pa.int64())}))
    writer.attributes |= {"shards": shards, "warnings": [*ids.warnings(), *duplicates.warnings]}


def _read_back(writer: ArtifactWriter, index: int) -> pa.Table:
    with writer.filesystem.open_input_file(writer.files[_shard_file(index)].path) as stream:
        return pq.ParquetFile(stream).read()


def _shard_file(index: int) -> str:
    return f"{index:05d}.parquet"
