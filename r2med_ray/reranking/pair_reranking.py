"""Rerankers that score each (query, candidate) pair: cross-encoders, yes-no models, late interaction."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from r2med_ray.cuts import SideCuts
from r2med_ray.demands import Score, Steps
from r2med_ray.protocols import Candidates, PairScorer, Scorer, TellsSentences, taken_cuts
from r2med_ray.readings import listening
from r2med_ray.sentences import Shares
from r2med_ray.types import Reranking


class Scored(NamedTuple):
    """Scores of pairs, in their order, and what the scorer told; None if it can't say."""

    scores: list[float]
    cuts: SideCuts | None
    """What was cut off the pairs' texts."""

    example: list[Any] | None = None
    """What was read of the first pair, see `readings.Listener.example`."""

    sentences: list[Shares] | None = None
    """The share of each sentence of the document in each score."""

    speed: Mapping[str, Any] | None = None
    """How fast the pairs were scored and on what, as plain values of `first_stages.stored_speed.Speed`."""


def score_counted(scorer: PairScorer, pairs: Sequence[tuple[str, str]]) -> Scored:
    """Have pairs scored, and return what the scorer told of them alone."""
    taken_cuts(scorer)  # whatever pairs that failed have left
    with listening(most=1) as heard:
        scores = scorer.score_pairs(pairs)
    sentences = scorer.take_sentences() if isinstance(scorer, TellsSentences) else None
    return Scored(scores, taken_cuts(scorer), heard.example(), sentences)


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
