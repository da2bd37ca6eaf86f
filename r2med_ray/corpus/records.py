"""The records of a collection, be they JSON Lines, Parquet or a package's: read, counted, named by their bytes."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from r2med_ray.corpus.ids import Tally
from r2med_ray.corpus.ir_collections import digest_of, is_address, read_entries
from r2med_ray.corpus.layouts import Layout
from r2med_ray.storage.artifacts import fingerprint
from r2med_ray.storage.jsonl import Record, read_jsonl, read_lines
from r2med_ray.storage.parquet import count_rows, parts, read_rows


def is_parquet(path: Path) -> bool:
    return path.suffix == ".parquet" and not is_address(path)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file, which may be the first of several Parquet parts.

    Raises:
        DataError: names file and line of what can't be read.
    """
    if is_address(path):
        return read_entries(path)
    return read_rows(path) if is_parquet(path) else read_jsonl(path)


def read_texts(path: Path, layout: Layout, left_out: Tally | None = None) -> Iterator[Record]:
    """Yield the records of documents or queries, without those whose text is empty where the layout drops them.

    Args:
        path: the file, or the first of its parts.
        layout: says whether, and under which names.
        left_out: takes the ids of what was dropped.
    """
    for record in read_records(path):
        if layout.drops_empty and all(_is_empty(record.values.get(field)) for field in layout.text_fields):
            if left_out is not None:
                left_out.add(str(record.values.get(layout.id_fields[0])))
        else:
            yield record


def count_records(path: Path) -> int:
    """Return how many records a file has; blank lines are none."""
    if is_address(path):
        return sum(1 for _ in read_entries(path))
    return count_rows(path) if is_parquet(path) else sum(1 for _ in read_lines(path))


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, or what names a Parquet table's parts or a package's records."""
    if is_address(path):
        return digest_of(path)
    digests = [_sha256(part) for part in (parts(path) if is_parquet(path) else [path])]
    return digests[0] if len(digests) == 1 else fingerprint(digests)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _is_empty(value: object) -> bool:
    return isinstance(value, str) and not value.strip()
