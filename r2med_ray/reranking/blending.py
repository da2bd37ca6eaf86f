"""Adds what a reranker and what the first stage say of a query's candidates, with weights and on a scale.

GroupRank's published figures are 0.6 of the mean grade and 0.4 of the first stage's score (arXiv 2511.11653).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from r2med_ray.reranking.orderings import levels_of, rank_scores

Scale: TypeAlias = Literal["none", "minmax", "log-rank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blend:
    """The weights of both sides, and what is done to the scores of each before they are added."""

    reranker: float
    first_stage: float
    scale: Scale = "none"

    def scores(self, values: Sequence[float], first: Sequence[float]) -> list[float]:
        """Return scores made from the ranks of the sums: n for the best of n candidates, 1 for the last.

        Args:
            values: what the reranker gives the candidates of one query, in the first stage's order.
            first: the first stage's scores. Its order decides between equal sums.
        """
        scaled = _SCALES[self.scale]
        sums = [
            math.fsum((self.reranker * value, self.first_stage * score))
            for value, score in zip(scaled(values), scaled(first), strict=True)
        ]
        return rank_scores([levels_of(sums)])


def _minmax(scores: Sequence[float]) -> list[float]:
    low, high = min(scores), max(scores)
    return [(score - low) / (high - low) if high > low else 0.0 for score in scores]


def _log_rank(scores: Sequence[float]) -> list[float]:
    """Return −log(rank + 1), where equal scores have the best rank of theirs."""
    ranks, rank = [0] * len(scores), 1
    for level in levels_of(scores):
        for position in level:
            ranks[position] = rank
        rank += len(level)
    return [-math.log(each + 1) for each in ranks]


_SCALES: Mapping[Scale, Callable[[Sequence[float]], Sequence[float]]] = {
    "none": lambda scores: scores,
    "minmax": _minmax,
    "log-rank": _log_rank,
}
