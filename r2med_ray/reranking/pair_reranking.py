"""Rerankers that score each (query, candidate) pair: cross-encoders, yes-no models, late interaction."""

from collections.abc import Sequence
from typing import NamedTuple

from r2med_ray.cuts import SideCuts
from r2med_ray.demands import Score, Steps
from r2med_ray.protocols import Candidates, PairScorer, Scorer, taken_cuts
from r2med_ray.types import Reranking


class Scored(NamedTuple):
    """Scores of pairs, in their order, and what was cut off the pairs' texts; None if the scorer can't say."""

    scores: list[float]
    cuts: SideCuts | None


def score_counted(scorer: PairScorer, pairs: Sequence[tuple[str, str]]) -> Scored:
    """Have pairs scored, and return what was cut for them alone."""
    taken_cuts(scorer)  # whatever pairs that failed have left
    return Scored(scorer.score_pairs(pairs), taken_cuts(scorer))


class PairReranker:
    """Has a scorer score all pairs.

    The driver that answers the demand keeps the scores, under the key of `stored_scores.scores_key`.

    Args:
        scorer: a row of the catalogue.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def score_all(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        """Return the scorer's scores for all queries. They are asked for in one demand."""
        reranking: Reranking = yield Score(scorer=self._scorer, candidates=tuple(work))
        return reranking
