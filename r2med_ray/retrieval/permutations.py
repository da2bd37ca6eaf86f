"""What a language model says of an order or of grades, read strictly and repaired by stated rules.

An order is the last unbroken list of two or more ids in the answer, joined by `>`, commas, semicolons or blanks;
in brackets (`[2] > [1]`) or, where no id stands in brackets, bare (`2 > 1`). Prose around it is left out. Where only
one bracketed id is there, that one leads. Then

1. an id that was not shown is dropped;
2. an id that comes again is dropped, its first place counts;
3. ids that are missing follow in the order in which they were shown.

Grades: every `[id]: number` of the answer; the last one of an id counts, a number outside the scale is cut to it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

_JOIN = r"\s*(?:>|,|;|\s)\s*"
_BRACKETED = re.compile(rf"\[\d+\](?:{_JOIN}\[\d+\])*")
_BARE = re.compile(r"(?<![\w.])\d+(?:\s*>\s*\d+)+(?![\w.])")
_NUMBER = re.compile(r"\d+")
_GRADE = re.compile(r"\[(\d+)\]\s*[:=]\s*(-?\d+(?:\.\d+)?)")

NO_LIST = "no list"
OUT_OF_RANGE = "id out of range"
REPEATED = "id repeated"
MISSING = "id missing"
OUT_OF_SCALE = "grade out of scale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reordering:
    """An order that holds every shown document once."""

    positions: tuple[int, ...]
    """Positions from 0 of what was shown, the best first."""

    repairs: Counter[str] = field(default_factory=Counter)
    """Which rules had to be applied, and how often."""


def read_permutation(answer: str, shown: int) -> Reordering:
    """Read an order of the ids 1 to `shown` out of an answer; nothing is lost and nothing comes twice."""
    repairs: Counter[str] = Counter()
    said = _said(answer)
    if not said:
        return Reordering(positions=tuple(range(shown)), repairs=Counter({NO_LIST: 1}))
    kept: dict[int, None] = {}
    for number in said:
        if not 1 <= number <= shown:
            repairs[OUT_OF_RANGE] += 1
        elif number - 1 in kept:
            repairs[REPEATED] += 1
        else:
            kept[number - 1] = None
    missing = [position for position in range(shown) if position not in kept]
    if missing:
        repairs[MISSING] += len(missing)
    return Reordering(positions=(*kept, *missing), repairs=repairs)


def _said(answer: str) -> Sequence[int]:
    lists = _BRACKETED.findall(answer) or _BARE.findall(answer)
    long = [found for found in lists if len(_NUMBER.findall(found)) > 1]
    chosen = (long or lists[-1:] or [""])[-1]
    return [int(number) for number in _NUMBER.findall(chosen)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grades:
    """One grade per shown document; None where the answer has none."""

    values: tuple[float | None, ...]
    repairs: Counter[str] = field(default_factory=Counter)


def read_grades(answer: str, shown: int, *, best: float) -> Grades:
    """Read a grade from 0 to `best` for each of the ids 1 to `shown` out of an answer."""
    repairs: Counter[str] = Counter()
    values: list[float | None] = [None] * shown
    for number, text in _GRADE.findall(answer):
        grade = float(text)
        if not 1 <= int(number) <= shown:
            repairs[OUT_OF_RANGE] += 1
            continue
        if not 0 <= grade <= best:
            repairs[OUT_OF_SCALE] += 1
        values[int(number) - 1] = min(max(grade, 0.0), best)
    if missing := values.count(None):
        repairs[NO_LIST if missing == shown else MISSING] += 1 if missing == shown else missing
    return Grades(values=tuple(values), repairs=repairs)
