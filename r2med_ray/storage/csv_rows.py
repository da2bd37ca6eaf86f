"""Rows of CSV files with a header, one by one, each with the place where it was read."""

import csv
from collections.abc import Iterator
from pathlib import Path

from r2med_ray.errors import DataError
from r2med_ray.storage.jsonl import Record


def read_csv(file: Path) -> Iterator[Record]:
    """Yield the rows of a CSV file in UTF-8; `line` is the last line of the row. A row may lack the last columns.

    Raises:
        DataError: the file can't be read as CSV, or a row has more fields than the header.
    """
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = csv.DictReader(stream, strict=True)
            for values in rows:
                if None in values:
                    raise DataError(f"{file}:{rows.line_num}: the row has more fields than the header")
                yield Record(file, rows.line_num, {name: text for name, text in values.items() if text is not None})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file}: can't be read as CSV: {error}") from error
