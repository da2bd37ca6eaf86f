"""Shards of a converted corpus: Parquet with one schema, and a digest that each shard is checked against."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from r2med_ray.errors import ArtifactError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Corpus, CorpusShard, DocId, Document

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
    digest = hashlib.sha256(table["row"].to_numpy())
    for name in ("doc_id", "title", "text"):
        column = table[name]
        digest.update(pc.binary_length(column).to_numpy().astype(np.int64))
        for chunk in column.chunks:
            _, offsets, content = chunk.buffers()
            first, last = np.frombuffer(offsets, np.int32)[[chunk.offset, chunk.offset + len(chunk)]]
            digest.update(memoryview(content or b"")[first:last])
    return digest.hexdigest()


def read_table(store: ArtifactStore, shard: CorpusShard, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a shard, or some of its columns, as they are stored.

    Raises:
        ArtifactError: the file is missing or can't be decoded.
    """
    try:
        with store.filesystem.open_input_file(shard.path) as stream:
            return pq.ParquetFile(stream).read(columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise ArtifactError(f"corpus shard {shard.index}, {shard.path}: can't be read: {error}") from error


def require_digest(table: pa.Table, shard: CorpusShard) -> None:
    """Refuse a whole table that is not the shard's.

    Raises:
        ArtifactError: rows, ids, titles or texts are not those of the shard's digest.
    """
    if table_digest(table) != shard.digest:
        raise ArtifactError(
            f"corpus shard {shard.index}, {shard.path}: its content is not what its digest says; "
            "remove it with `r2med artifacts gc --damaged` and run the job again"
        )


def locate(
    store: ArtifactStore, corpus: Corpus, doc_ids: Iterable[DocId]
) -> Iterator[tuple[CorpusShard, list[DocId]]]:
    """Yield the shards that hold any of the ids, each with the ids that it holds. Only the column of ids is read."""
    wanted = pa.array(sorted(set(doc_ids)), pa.string())
    for shard in corpus.shards:
        column = read_table(store, shard, ["doc_id"])["doc_id"]
        found = column.filter(pc.is_in(column, value_set=wanted)).to_pylist()
        if found:
            yield shard, found
