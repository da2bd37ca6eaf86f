"""Rerankers that score each (query, candidate) pair: cross-encoders, yes-no models, late interaction."""

from collections.abc import Sequence

from r2med_ray.demands import Score, Steps
from r2med_ray.protocols import Candidates, Scorer
from r2med_ray.types import Reranking


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
