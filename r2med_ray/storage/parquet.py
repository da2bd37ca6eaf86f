"""Reads Parquet tables row by row: one file, or the Hub's numbered parts (`x-00000-of-00003.parquet`)."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.errors import DataError
from r2med_ray.storage.jsonl import Record

_PART = re.compile(r"(.*)-00000-of-([0-9]{5})\.parquet")
_ROWS_AT_ONCE = 1024


def parts(first: Path) -> list[Path]:
    """Return the files of a table in their order. `first` is the only file or the first part.

    Raises:
        DataError: a part is missing; names the first missing one.
    """
    match = _PART.fullmatch(first.name)
    if match is None:
        return [first]
    paths = [first.with_name(f"{match[1]}-{index:05d}-of-{match[2]}.parquet") for index in range(int(match[2]))]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DataError(f"{missing[0]}: this part of {len(paths)} is missing")
    return paths


def count_rows(first: Path) -> int:
    """Return how many rows a table has, from its parts' footers."""
    return sum(_open(path).metadata.num_rows for path in parts(first))


def count_bytes(first: Path) -> int:
    """Return how many bytes the values of a table have in memory, where no value is shared or packed.

    Raises:
        DataError: a part is missing, or is no Parquet file.
    """
    total = 0
    for path in parts(first):
        try:
            total += sum(batch.nbytes for batch in _open(path).iter_batches(_ROWS_AT_ONCE))
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: can't be read: {error}") from error
    return total


def read_rows(first: Path) -> Iterator[Record]:
    """Yield the rows of a table. `line` is the row's number in its part, from 1. Memory holds some rows at a time.

    Raises:
        DataError: a part is missing, is no Parquet file, or is damaged; names the part.
    """
    for path in parts(first):
        try:
            batches = _open(path).iter_batches(_ROWS_AT_ONCE)
            rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, values in enumerate(rows, start=1):
                yield Record(path, number, values)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: can't be read: {error}") from error


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: no Parquet file: {error}") from error
