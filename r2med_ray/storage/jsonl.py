"""Reads JSON Lines: nothing is guessed, and every error has a line number.

Only `\\n` ends a record. `str.splitlines` would also split at U+2028, U+2029, U+0085 and others, but biomedical text
holds these characters unescaped (jsonlines issue 53). For the same reason a string may hold unescaped control
characters.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from r2med_ray.errors import DataError

_DECODER = json.JSONDecoder(strict=False)


class Record(NamedTuple):
    """One object of a file."""

    path: Path
    line: int
    values: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, text without its line end). Lines of white space and a byte order mark are skipped.

    A file whose name ends in `.gz` is unpacked while it is read.

    Raises:
        DataError: a line is no UTF-8, or the packed file is damaged; names file and line.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                if line.strip():
                    yield number, line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}:{number}: not UTF-8: {error}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}:{number + 1}: the gzip file is damaged: {error}") from error


def read_jsonl(path: Path) -> Iterator[Record]:
    """Yield the objects of a file, whose lines are read by `read_lines`.

    Raises:
        DataError: a line is no UTF-8, no JSON, or no object; names file and line.
    """
    for number, line in read_lines(path):
        try:
            values = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not a JSON object: {error}") from error
        if not isinstance(values, dict):
            raise DataError(f"{path}:{number}: expected a JSON object, got {type(values).__name__}")
        yield Record(path, number, values)
