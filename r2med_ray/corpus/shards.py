"""Shards of a converted corpus: Parquet with one schema, and digests that whatever is read is checked against."""

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.errors import ArtifactError
from r2med_ray.storage.arrow import numbers
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.manifests import REMEDY
from r2med_ray.types import DocId, Document

SCHEMA = pa.schema([("row", pa.int64()), ("doc_id", pa.string()), ("title", pa.string()), ("text", pa.string())])


def to_table(documents: Sequence[Document], *, start_row: int) -> pa.Table:
    """Return documents as a table of `SCHEMA`, whose rows are counted from `start_row`."""
    columns = [
        np.arange(start_row, start_row + len(documents)),
        [document.doc_id for document in documents],
        [document.title for document in documents],
        [document.text for document in documents],
    ]
    return pa.table(columns, schema=SCHEMA)


def from_table(table: pa.Table) -> list[Document]:
    """Return the documents of a table of `SCHEMA`."""
    columns = [table[name].to_pylist() for name in ("doc_id", "title", "text")]
    return [Document(doc_id=doc_id, title=title, text=text) for doc_id, title, text in zip(*columns, strict=True)]


def table_digest(table: pa.Table) -> str:
    """Return the SHA-256 of a table of `SCHEMA`: of its rows, then of all lengths and all bytes of each text column.

    The digest depends on the values alone, not on how Arrow cuts them into chunks or how Parquet packs them.
    """
    digest = hashlib.sha256(_numbers(table["row"]).tobytes())
    for name in ("doc_id", "title", "text"):
        _add_texts(digest, table[name])
    return digest.hexdigest()


def ids_digest(doc_ids: pa.ChunkedArray) -> str:
    """Return the SHA-256 of a column of ids: of all lengths, then of all bytes."""
    digest = hashlib.sha256()
    _add_texts(digest, doc_ids)
    return digest.hexdigest()


def read_table(store: ArtifactStore, shard: CorpusShard) -> pa.Table:
    """Read a whole shard.

    Raises:
        ArtifactError: the file is missing or can't be decoded, or its content is not what its digest says.
    """
    table = _read(store, shard, SCHEMA.names)
    require_digest(table, shard)
    return table


def read_ids(store: ArtifactStore, shard: CorpusShard) -> pa.ChunkedArray:
    """Read the ids of a shard, in the order of its rows. No other column is read if the ids have a digest.

    Raises:
        ArtifactError: see `read_table`.
    """
    if not shard.ids_digest:
        return read_table(store, shard)["doc_id"]
    ids = _read(store, shard, ["doc_id"])["doc_id"]
    if ids_digest(ids) != shard.ids_digest:
        raise _damaged(shard, "its ids are not what their digest says")
    return ids


def require_digest(table: pa.Table, shard: CorpusShard) -> None:
    """Refuse a whole table that is not the shard's.

    Raises:
        ArtifactError: rows, ids, titles or texts are not those of the shard's digest.
    """
    if table_digest(table) != shard.digest:
        raise _damaged(shard, "its content is not what its digest says")


def locate(
    store: ArtifactStore, corpus: Corpus, doc_ids: Iterable[DocId]
) -> Iterator[tuple[CorpusShard, list[DocId]]]:
    """Yield the shards that hold any of the ids, each with the ids that it holds. Only the column of ids is read."""
    wanted = pa.array(sorted(set(doc_ids)), pa.string())
    for shard in corpus.shards:
        column = read_ids(store, shard)
        found = column.filter(pc.is_in(column, value_set=wanted)).to_pylist()
        if found:
            yield shard, found


def ids_at(store: ArtifactStore, corpus: Corpus, rows: Collection[int]) -> dict[int, DocId]:
    """Return row → id for some rows of a corpus. Only the shards that have one of the rows are read."""
    starts = [shard.start_row for shard in corpus.shards]
    of_shard: dict[int, list[int]] = {}
    for row in sorted(rows):
        of_shard.setdefault(bisect_right(starts, row) - 1, []).append(row)
    found: dict[int, DocId] = {}
    for place, wanted in of_shard.items():
        column = read_ids(store, corpus.shards[place])
        found |= {row: column[row - starts[place]].as_py() for row in wanted}
    return found


def held_ids(store: ArtifactStore, corpus: Corpus, doc_ids: Iterable[DocId]) -> set[DocId]:
    """Return those of some ids that the corpus has. Only the column of ids is read."""
    return {doc_id for _, found in locate(store, corpus, doc_ids) for doc_id in found}


def _read(store: ArtifactStore, shard: CorpusShard, columns: Sequence[str]) -> pa.Table:
    try:
        with store.filesystem.open_input_file(shard.path) as stream:
            table = pq.ParquetFile(stream).read(columns=columns)
    except (OSError, ValueError, pa.ArrowException) as error:  # a name may be no UTF-8
        raise ArtifactError(
            f"{_named(shard)}: can't be read: {store.place.said(error)}. If `r2med artifacts verify` names it, "
            "remove it with `r2med artifacts gc --damaged` and run the job again."
        ) from error
    expected = pa.schema([SCHEMA.field(name) for name in columns])
    if not table.schema.equals(expected):
        raise _damaged(shard, f"has the columns {table.schema.names}, expected {columns} as they were written")
    return table


def _damaged(shard: CorpusShard, problem: str) -> ArtifactError:
    return ArtifactError(f"{_named(shard)}: {problem}. {REMEDY}")


def _named(shard: CorpusShard) -> str:
    return f"corpus shard {shard.index}, {shard.path}"


def _add_texts(digest: "hashlib._Hash", column: pa.ChunkedArray) -> None:
    digest.update(_numbers(pc.binary_length(column)).astype(np.int64).tobytes())
    for chunk in column.chunks:
        _, offsets, content = chunk.buffers()
        first, last = np.frombuffer(offsets, np.int32)[[chunk.offset, chunk.offset + len(chunk)]]
        digest.update(memoryview(content or b"")[first:last])


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.integer[Any]]:
    """Return a column as numpy. Only a damaged file has nulls, which become -1."""
    # `fill_null` imports pandas.
    return numbers(column.fill_null(-1) if column.null_count else column)
