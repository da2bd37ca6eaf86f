"""Reads how relevant one document is out of a language model's answer.

In this order: the last number in score tags (`<score>85</score>`), the last number after a word for a grade
(`Relevance score: 7`, `"score": 7`), the grade of the only id (`{"[1]": 7}`), an answer that is nothing but a number.
A number outside the scale is replaced by the nearest end of the scale.
"""

import re

from r2med_ray.reranking.grades import graded
from r2med_ray.reranking.shown_ids import plain

_NUMBER = r"(-?\d{1,9}(?:\.\d{1,9})?)(?!\w|\.\d)"
_SAID = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"<score>[\s\[]*{_NUMBER}",
        rf"\b(?:score|grade|rating|relevance)\b\)?\s{{0,9}}(?:is\b|[:=])?[\s\[({{]{{0,9}}{_NUMBER}",
    )
)
_ALONE = re.compile(rf"\W*?{_NUMBER}(?:\s*/\s*\d+)?\W*")


def read_number(answer: str, *, best: float) -> tuple[float, bool] | None:
    """Return the number of an answer on the scale of 0 to `best`, and whether it was within; None if it has none."""
    for part in plain(answer):
        said = next((found[-1] for pattern in _SAID if (found := pattern.findall(part))), None)
        if said is None:
            said = next((str(grade) for _, grade in reversed(graded(part, (1,)))), None)
        if said is None and (alone := _ALONE.fullmatch(part)):
            said = alone[1]
        if said is not None:
            number = float(said)
            return min(max(number, 0.0), best), 0 <= number <= best
    return None
