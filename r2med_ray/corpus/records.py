"""Reads, counts and digests the records of a collection.

The records are in JSON Lines, in Parquet, or in the `ir_datasets` package.
"""

from collections.abc import Iterator
from pathlib import Path

from r2med_ray.corpus.ir_collections import digest_of, is_address, read_entries
from r2med_ray.corpus.layouts import Layout
from r2med_ray.storage.ids import Tally
from r2med_ray.storage.jsonl import Record, read_jsonl, read_lines
from r2med_ray.storage.keys import fingerprint, sha256_of
from r2med_ray.storage.parquet import count_rows, parts, read_rows


def is_parquet(path: Path) -> bool:
    return path.suffix == ".parquet" and not is_address(path)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file. The file may be the first of several Parquet parts.

    Raises:
        DataError: a record can't be read; names file and line.
    """
    if is_address(path):
        return read_entries(path)
    return read_rows(path) if is_parquet(path) else read_jsonl(path)


def read_texts(path: Path, layout: Layout, left_out: Tally | None = None) -> Iterator[Record]:
    """Yield the records of documents or queries. Records without a text are left out if the layout says so.

    Args:
        path: the file, or the first of its parts.
        layout: says whether such records are left out, and names the text fields.
        left_out: counts the ids of the records that are left out.
    """
    for record in read_records(path):
        if layout.drops_empty and all(_is_empty(record.values.get(field)) for field in layout.text_fields):
            if left_out is not None:
                left_out.add(str(record.values.get(layout.id_fields[0])))
        else:
            yield record


def count_records(path: Path) -> int:
    """Return how many records a file has. Empty lines don't count."""
    if is_address(path):
        return sum(1 for _ in read_entries(path))
    return count_rows(path) if is_parquet(path) else sum(1 for _ in read_lines(path))


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, of a package's records, or a fingerprint of the parts of a Parquet table."""
    if is_address(path):
        return digest_of(path)
    digests = [sha256_of(part) for part in (parts(path) if is_parquet(path) else [path])]
    return digests[0] if len(digests) == 1 else fingerprint(digests)


def _is_empty(value: object) -> bool:
    return isinstance(value, str) and not value.strip()
