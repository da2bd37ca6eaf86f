"""Reads an order or grades out of a language model's answer, and repairs them by stated rules.

Markdown's emphasis and escapes are removed from the answer first.

A *list* is an unbroken chain of ids that are joined by `>`, commas, semicolons or spaces. Its ids are in brackets
(`[2] > [1]`, `[2, 1]`). Bare ids count only if the answer has none of the shown ids in brackets. Bare ids that are
joined by `>` may be anywhere (`2 > 1`). Bare ids that are joined by other signs need a line of their own; only a
label and a colon may come before them (`Order: 2, 1`).

If there are several lists, a list with `>`, which the prompt asks for, is preferred to a list without. Among those,
the list with the most shown ids is the order. Among equal lists, the last one is the order. If the ids in brackets
come one by one, in prose or in numbered lines (`1. [2]`), all of them count, in the order in which they are first
mentioned.

The order is then repaired:

1. an id that was not shown is dropped;
2. an id that comes again is dropped, and its first place counts;
3. missing ids follow in the order in which they were shown.

Grades: every `[id]: number` of the answer counts. The colon may be `=`, or a dash and a space, and the word grade may
follow it. In `7/10` the grade is 7. If an id has several grades, the last one counts. A number outside the scale is
replaced by the nearest end of the scale.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

_MARKUP = str.maketrans("", "", "*_`~\\")
_ID = r"\d{1,9}"
_JOIN = r"[\s>,;]"
_GROUP = rf"\[\s*{_ID}(?:{_JOIN}+{_ID})*\s*\]"
_BRACKETED = re.compile(rf"{_GROUP}(?:{_JOIN}*{_GROUP})*")
_OWN_LINES = rf"^(?:[^\d\n:]*:)?[ \t]*{_ID}(?:{_JOIN}+{_ID})+\.?[ \t]*$"
_BARE = re.compile(rf"{_OWN_LINES}|(?<![\w.]){_ID}(?:\s*>\s*{_ID})+(?!\w|\.\d)", re.MULTILINE)
_NUMBER = re.compile(r"\d+")
_GRADE = re.compile(
    rf"\[({_ID})\]\s*(?:[:=]|[-–—]\s)\s*(?:grade\b[\s:=]*)?(-?\d+(?:\.\d+)?)",
    re.IGNORECASE,
)

VERSION = 3
"""The version of these rules and of their counts. It is part of artefact keys."""

NO_LIST = "no list"
OUT_OF_RANGE = "id out of range"
REPEATED = "id repeated"
MISSING = "id missing"
OUT_OF_SCALE = "grade out of scale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reordering:
    """An order that holds every shown document once."""

    positions: tuple[int, ...]
    """The positions of the shown documents, from 0, with the best document first."""

    repairs: Counter[str] = field(default_factory=Counter)
    """Rule → how often it was applied."""


def read_permutation(answer: str, shown: int) -> Reordering:
    """Read an order of the ids 1 to `shown` out of an answer. No id is lost, and none comes twice."""
    repairs: Counter[str] = Counter()
    kept: dict[int, None] = {}
    for number in _said(answer, frozenset(range(1, shown + 1))):
        if not 1 <= number <= shown:
            repairs[OUT_OF_RANGE] += 1
        elif number - 1 in kept:
            repairs[REPEATED] += 1
        else:
            kept[number - 1] = None
    if not kept:
        return Reordering(positions=tuple(range(shown)), repairs=Counter({NO_LIST: 1}))
    missing = [position for position in range(shown) if position not in kept]
    if missing:
        repairs[MISSING] += len(missing)
    return Reordering(positions=(*kept, *missing), repairs=repairs)


def _said(answer: str, shown: frozenset[int]) -> Collection[int]:
    """Return the ids of the list that counts, or all ids that come one by one. There are none if no id was shown."""
    text = answer.translate(_MARKUP)

    def rank(chain: str) -> tuple[bool, int]:
        return ">" in chain, len(shown.intersection(_ids(chain)))

    for pattern in (_BRACKETED, _BARE):
        chains = [chain for chain in pattern.findall(text) if not shown.isdisjoint(_ids(chain))]
        if chains:
            best = _ids(max(reversed(chains), key=rank))
            return best if len(best) > 1 else dict.fromkeys(id_ for chain in chains for id_ in _ids(chain))
    return ()


def _ids(chain: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(chain)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grades:
    """One grade per shown document; None for a document that the answer doesn't grade."""

    values: tuple[float | None, ...]
    repairs: Counter[str] = field(default_factory=Counter)
    """Rule → how often it was applied."""


def read_grades(answer: str, shown: int, *, best: float) -> Grades:
    """Read a grade from 0 to `best` for each of the ids 1 to `shown` out of an answer."""
    repairs: Counter[str] = Counter()
    values: list[float | None] = [None] * shown
    for number, text in _GRADE.findall(answer.translate(_MARKUP)):
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
