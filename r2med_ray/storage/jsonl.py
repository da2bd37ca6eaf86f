"""Reads JSON Lines: nothing is guessed, and every error has a line number.

Only `\\n` ends a record. `str.splitlines` would also split at U+2028, U+2029, U+0085 and others, but biomedical text
holds these characters unescaped (jsonlines issue 53). For the same reason a string may hold unescaped control
characters.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from r2med_ray.errors import DataError
from r2med_ray.storage.packed import open_packed, unpacked_name

_OBJECT = re.compile(r"""\s*\{\s*(?:["'}]|$)""")
"""The beginning of an object, or of an object in wrong quotes; an id may begin with a brace too."""

_DECODER = json.JSONDecoder(strict=False)


class Record(NamedTuple):
    """One object of a file."""

    path: Path
    line: int
    values: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    def first_of(self, names: Sequence[str]) -> Any:
        """Return the value under the first of the names that the record has.

        Raises:
            DataError: it has none of them.
        """
        for name in names:
            if name in self.values:
                return self.values[name]
        raise DataError(f"{self.where}: no field {' or '.join(names)}; it has {', '.join(self.values) or 'none'}")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, text without its line end). Lines of white space and a byte order mark are skipped.

    A file whose name ends in `.gz` is unpacked while it is read.

    Raises:
        DataError: a line is no UTF-8 (names file and line), or the file can't be read; see `packed.open_packed`.
    """
    number = 0
    try:
        with open_packed(path) as stream:
            for number, raw in enumerate(stream, start=1):
                line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                if line.strip():
                    yield number, line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}:{number}: not UTF-8: {error}") from error


def holds_json(path: Path) -> bool:
    """Return whether a file holds JSON Lines: by its name, or else by its first line, as R2MED's `qrels.txt` may."""
    _, first = next(read_lines(path), (0, ""))
    return unpacked_name(path).endswith(".jsonl") or _OBJECT.match(first) is not None


def why_no_json(error: ValueError | RecursionError, otherwise: str) -> str:
    """Say why a text can't be decoded. Apart from bad JSON, Python refuses whole numbers of very many digits."""
    if isinstance(error, ValueError) and not isinstance(error, json.JSONDecodeError):
        return f"a number has more than {sys.get_int_max_str_digits()} digits, which is too long"
    return f"{otherwise}: {error}"


def read_jsonl(path: Path) -> Iterator[Record]:
    """Yield the objects of a file, whose lines are read by `read_lines`.

    Raises:
        DataError: a line is no UTF-8, no JSON, or no object; names file and line.
    """
    for number, line in read_lines(path):
        try:
            values = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: {why_no_json(error, 'not a JSON object')}") from error
        if not isinstance(values, dict):
            raise DataError(f"{path}:{number}: expected a JSON object, got {type(values).__name__}")
        yield Record(path, number, values)
