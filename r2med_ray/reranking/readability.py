"""A limit on the share of a reranking language model's answers that can't be read."""

from r2med_ray.errors import DataError, named
from r2med_ray.types import Reranking

CONTEXT_LIMIT = "context limit"
"""The reason why there is no answer if the model has no room for a prompt."""


def require_readable(
    reranking: Reranking, *, max_unusable: float, unit: str, answers_per_candidate: int | None = None
) -> None:
    """Check that enough answers could be read.

    Args:
        reranking: the scores and repairs. The model was asked about the queries that have two or more candidates.
        max_unusable: share, from 0 to 1, that may be unreadable: of the queries, or of the answers if each is about
            one candidate.
        unit: system and task, for errors.
        answers_per_candidate: number of answers about each candidate; None if an answer is about several.

    Raises:
        DataError: more can't be read. The message names the queries and the reasons.
    """
    unreadable, answers = reranking.repairs.unreadable, reranking.repairs.unreadable_answers
    contested = [len(scores) for scores in reranking.scores.values() if len(scores) > 1]
    if answers_per_candidate is None:
        bad, asked, what = len(unreadable), len(contested), "the reranker's answers to {} of {} queries"
    else:
        bad, asked = answers.total(), sum(contested) * answers_per_candidate
        what = "{} of {} answers of the reranker"
    if not bad or bad / asked <= max_unusable:
        return
    reasons = ", ".join(f"{reason}: {number}" for reason, number in answers.most_common())
    smaller = "a smaller `window` or `passage_words`, or " if CONTEXT_LIMIT in answers else ""
    raise DataError(
        f"{unit}: {what.format(bad, asked)} can't be read ({reasons}); at most "
        f"{max_unusable:.0%} are allowed: {named([*unreadable])}. Answers are stored, so the same settings give the "
        f"same answers again. Set {smaller}another `seed` in the reranker's row, a larger `max_tokens` "
        "in its language model's, or a larger `max_unusable` of the reranker"
    )
