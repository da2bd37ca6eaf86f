"""Where a corpus is cut into shards: after a number of documents, or earlier where their texts are huge."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from r2med_ray.corpus.ir_collections import is_address
from r2med_ray.corpus.layouts import Layout
from r2med_ray.corpus.readers import read_documents
from r2med_ray.corpus.records import is_parquet
from r2med_ray.errors import DataError
from r2med_ray.storage.ids import IdReader
from r2med_ray.storage.jsonl import read_lines
from r2med_ray.storage.packed import is_packed
from r2med_ray.storage.parquet import count_bytes
from r2med_ray.types import Document

BYTES_PER_SHARD = 1 << 30
"""Bytes in UTF-8 of the ids, titles and texts of a shard. Arrow counts the bytes of a text column in 31 bits, and a
worker gets a shard as a whole. A longer document is a shard of its own."""

GREATEST_TEXT = (1 << 31) - 1
"""Bytes of the longest document."""


def cut(documents: Iterable[Document], documents_per_shard: int) -> Iterator[list[Document]]:
    """Yield the documents of each shard: at most `documents_per_shard`, and at most `BYTES_PER_SHARD`.

    Raises:
        DataError: a document has more than `GREATEST_TEXT` bytes; names it.
    """
    batch: list[Document] = []
    total = 0
    for document in documents:
        size = _num_bytes(document)
        if batch and (len(batch) == documents_per_shard or total + size > BYTES_PER_SHARD):
            yield batch
            batch, total = [], 0
        batch.append(document)
        total += size
    if batch:
        yield batch


def is_cut_by_bytes(path: Path, layout: Layout, documents_per_shard: int) -> bool:
    """Say whether a file has a shard that ends before its number of documents, because its texts are huge.

    Raises:
        DataError: a document is bad (names file and line), or has more than `GREATEST_TEXT` bytes (names it).
    """
    if _at_most(path, layout, documents_per_shard) <= BYTES_PER_SHARD:
        return False
    documents = read_documents(path, layout, IdReader(path))
    return _longest(map(_num_bytes, documents), documents_per_shard) > BYTES_PER_SHARD


def _at_most(path: Path, layout: Layout, documents_per_shard: int) -> int:
    """Return a number of bytes that no shard exceeds. Records are not decoded: JSON is longer than its texts."""
    if is_address(path):
        return BYTES_PER_SHARD + 1
    if is_parquet(path):
        return count_bytes(path)
    if not is_packed(path) and path.stat().st_size <= BYTES_PER_SHARD:
        return path.stat().st_size
    lines = (_utf8(line) for _, line in read_lines(path))
    return sum(lines) if layout.drops_empty else _longest(lines, documents_per_shard)


def _longest(sizes: Iterable[int], documents_per_shard: int) -> int:
    """Return the greatest sum of `documents_per_shard` sizes, counted from the first; 0 if there are none."""
    sizes = iter(sizes)
    greatest = 0
    while group := list(islice(sizes, documents_per_shard)):
        greatest = max(greatest, sum(group))
    return greatest


def _num_bytes(document: Document) -> int:
    size = _utf8(document.doc_id) + _utf8(document.title) + _utf8(document.text)
    if size > GREATEST_TEXT:
        raise DataError(
            f"document {document.doc_id!r} has {size} bytes; a shard takes at most {GREATEST_TEXT}: cut it"
        )
    return size


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
