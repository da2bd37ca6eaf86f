"""Reads the best passage of a group out of a language model's answer.

The answer names one id, as `<answer>[3]</answer>`, `[3]`, `Passage 3` or `3`. If it orders several, the first of the
order counts, by the rules of `permutations`.
"""

import re

from r2med_ray.reranking.permutations import read_permutation
from r2med_ray.reranking.shown_ids import ID, LABEL, NO_LIST, plain

_LONE = re.compile(rf"\W*(?:{LABEL}[\s:#]*)?({ID})\W*", re.IGNORECASE)


def read_choice(answer: str, shown: int) -> int | None:
    """Return the place, from 0, of the best of the ids 1 to `shown`; None if the answer names none of them."""
    order = read_permutation(answer, shown)
    if NO_LIST not in order.repairs:
        return min(order.levels[0])
    lone = (_LONE.fullmatch(part) for part in plain(answer))
    ids = (int(found[1]) for found in lone if found)
    return next((number - 1 for number in ids if 1 <= number <= shown), None)
