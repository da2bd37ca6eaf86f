"""Reads grades out of a language model's answer, and repairs them by stated rules.

Every id with a number counts: `[2]: 7`, also with `=`, `|`, or a dash and a space in place of the colon, and with a
word for the grade (`[2]: grade 7`, `[2], Relevance: 7`). In `7/10` the grade is 7. The ids may be the keys of a JSON
object, as GroupRank writes them (`{"[2]": 7}`).

If no shown id is graded in brackets, ids after a label count (`Doc: 2, Relevance: 7`, as LlamaIndex asks for). If
there are none either, lines count that hold nothing but an id and a number (`2: 7`).

If an id has several grades, the last one counts. A number outside the scale is replaced by the nearest end of the
scale.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from r2med_ray.reranking.shown_ids import ID, MISSING, NO_LIST, OUT_OF_RANGE, OUT_OF_SCALE, plain

_WORD = r"(?:(?:relevance\s*)?(?:score|grade|rating)|relevance|usefulness)\b[\s:=]*"
_SIGN = rf"(?:\s*(?:[:=|]|[-–—]\s)[\s{{(]*(?:{_WORD})?|[\s,;|({{]*{_WORD})"
_NUMBER = r"(-?\d+(?:\.\d+)?)(?!\w|\.\d)"
_GRADES = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"\[\s*({ID})\s*\]+{_SIGN}{_NUMBER}",
        rf"\b(?:(?:doc|document|passage)(?:\s*id)?|id)\b[\s:#]*({ID}){_SIGN}{_NUMBER}",
        rf"^[ \t]*({ID}){_SIGN}{_NUMBER}(?:/\d+)?[ \t]*$",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grades:
    """One grade per shown document; None for a document that the answer doesn't grade."""

    values: tuple[float | None, ...]
    repairs: Counter[str] = field(default_factory=Counter)
    """Rule → how often it was applied."""


def read_grades(answer: str, shown: int, *, best: float) -> Grades:
    """Read a grade from 0 to `best` for each of the ids 1 to `shown` out of an answer."""
    ids = range(1, shown + 1)
    said = next((found for part in plain(answer) if (found := graded(part, ids))), [])
    repairs: Counter[str] = Counter()
    values: list[float | None] = [None] * shown
    for number, grade in said:
        if number not in ids:
            repairs[OUT_OF_RANGE] += 1
            continue
        if not 0 <= grade <= best:
            repairs[OUT_OF_SCALE] += 1
        values[number - 1] = min(max(grade, 0.0), best)
    if missing := values.count(None):
        repairs[NO_LIST if missing == shown else MISSING] += 1 if missing == shown else missing
    return Grades(values=tuple(values), repairs=repairs)


def graded(text: str, shown: Collection[int]) -> list[tuple[int, float]]:
    """Return the ids of a plain text with their numbers, as they come; none if no shown id has a number."""
    for pattern in _GRADES:
        said = [(int(number), float(grade)) for number, grade in pattern.findall(text)]
        if any(number in shown for number, _ in said):
            return said
    return []
