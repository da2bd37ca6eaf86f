"""Reads ids as text, refuses what is no id, and counts findings for a sentence in a report."""

import re
from collections.abc import Iterable
from pathlib import Path

from r2med_ray.errors import DataError

WORD = re.compile(r"[^\s\0]+", re.ASCII)
"""What can be one field of a line of TREC's files."""


class Tally:
    """Counts values and keeps the first three of them as examples."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.count = 0
        self._examples: list[str] = []
        for value in values:
            self.add(value)

    def add(self, value: str) -> None:
        self.count += 1
        if len(self._examples) < 3:
            self._examples.append(repr(value))

    def sentences(self, says: str) -> list[str]:
        """Return one sentence, "<count> <says>, e.g. <examples>", or no sentence if nothing was counted."""
        return [f"{self.count} {says}, e.g. {', '.join(self._examples)}"] if self.count else []


class IdReader:
    """Reads the ids of one file, and counts JSON integers and records that were left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._integers = Tally()
        self.left_out = Tally()

    def read(self, value: object, *, where: str) -> str:
        """Return an id as text: a JSON integer becomes its decimal digits.

        Raises:
            DataError: the value is a float, a boolean, null, a list, an empty text, a text of white space alone, or a
                text that holds ASCII white space (it separates the columns of run files and qrels), NUL (trec_eval
                ends an id there) or half of a surrogate pair.
        """
        if isinstance(value, int) and not isinstance(value, bool):
            self._integers.add(str(value))
            return str(value)
        if not isinstance(value, str) or not WORD.fullmatch(value) or value.isspace():
            raise DataError(
                f"{where}: {value!r:.80} is no id; expected a text that is not blank and holds no white space and no "
                "NUL, which would break a run file: write e.g. `_` instead, in corpus, queries and qrels alike"
            )
        return encodable(value, where=where)

    def warnings(self) -> list[str]:
        return [
            *self._integers.sentences(f"ids of {self._path.name} are JSON integers and were read as text"),
            *self.left_out.sentences(f"records of {self._path.name} have no text and were left out"),
        ]


def text_of(value: object, *, where: str, field: str) -> str:
    """Return the value of a field that has to be a text.

    Raises:
        DataError: it is none, or has no UTF-8 form.
    """
    if not isinstance(value, str):
        raise DataError(f"{where}: {field} is {value!r:.80}; expected a text")
    return encodable(value, where=where)


def encodable(text: str, *, where: str) -> str:
    """Return the text unchanged.

    Raises:
        DataError: the text has no UTF-8 form, because it holds an escape like `\\ud800` without its other half.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: character {error.start} is half of a surrogate pair: {text!r:.80}") from error
    return text
