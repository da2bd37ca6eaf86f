"""A limit on the share of queries for which a reranking language model gave an unreadable answer."""

from r2med_ray.errors import DataError, named
from r2med_ray.types import Reranking

CONTEXT_LIMIT = "context limit"
"""The reason why there is no answer if the model has no room for a prompt."""


def require_readable(reranking: Reranking, *, max_unusable: float, unit: str) -> None:
    """Check that the answers about enough queries could be read.

    Args:
        reranking: the scores and repairs. The model was asked about the queries that have two or more candidates.
        max_unusable: share of these queries, from 0 to 1, that may have an unreadable answer.
        unit: system and task, for errors.

    Raises:
        DataError: more queries have an unreadable answer. The message names the queries and the reasons.
    """
    unreadable = reranking.repairs.unreadable
    asked = sum(len(scores) > 1 for scores in reranking.scores.values())
    if not unreadable or len(unreadable) / asked <= max_unusable:
        return
    answers = reranking.repairs.unreadable_answers
    reasons = ", ".join(f"{reason}: {number}" for reason, number in answers.most_common())
    smaller = "a smaller `window` or `passage_words`, or " if CONTEXT_LIMIT in answers else ""
    raise DataError(
        f"{unit}: the reranker's answers to {len(unreadable)} of {asked} queries can't be read ({reasons}); at most "
        f"{max_unusable:.0%} are allowed: {named([*unreadable])}. Answers are stored, so the same settings give the "
        f"same answers again. Set {smaller}another `seed` in the reranker's row, a larger `max_tokens` "
        "in its language model's, or a larger `max_unusable` of the reranker"
    )
