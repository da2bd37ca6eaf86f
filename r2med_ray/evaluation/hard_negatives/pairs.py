"""Whether a system prefers a positive to a hard negative, over all pairs of the two. See `placed` for the notation.

`pair_acc` is the mean over Q_h of the share of pairs (p, h) of R × H_q with s(p) > s(h); equal scores count ½. So it
is the area under the ROC curve of a query's positives against its hard negatives. Chance is ½; higher is better.
`triplet_acc` looks only at the pairs of a hard negative and a positive that it was made from.

Both need the scores of *all* these documents. A list that is cut at a depth holds the best of them only.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from r2med_ray.errors import DataError
from r2med_ray.types import DocId, HardNegatives, Qrels, QueryId, Ranking, Run


class PairAccuracy(NamedTuple):
    """How often positives are preferred, as means over queries."""

    pair_acc: float
    triplet_acc: float | None
    """None if no hard negative says what it was made from."""

    num_queries: int


def pair_accuracy(run: Run, qrels: Qrels, negatives: HardNegatives, *, depth: int) -> PairAccuracy:
    """Compare the scores of all positives and hard negatives of each query.

    Args:
        run: ranks, for each query, all of its positives and hard negatives that match it at all; other documents
            don't matter. A document that isn't ranked scores less than all others, because nothing cut the ranking.
        qrels: the task's judgements.
        negatives: the labels.
        depth: how many documents the run was asked for.

    Raises:
        DataError: a ranking may have been cut above a positive or a hard negative (names the query), or no query with
            a positive has a hard negative.
    """
    shares: list[float] = []
    triplets: list[float] = []
    for query_id, own in negatives.items():
        positives = [doc_id for doc_id, grade in qrels.get(query_id, {}).items() if grade > 0]
        if not positives or not own:
            continue
        scores = scores_of(query_id, run.rankings.get(query_id, ()), [*positives, *own], depth)
        shares.append(fmean(preferred(scores, positive, negative) for positive in positives for negative in own))
        of_sources = [
            preferred(scores, positive, negative)
            for negative, known in own.items()
            for positive in known.positives
            if positive in positives
        ]
        triplets += [fmean(of_sources)] if of_sources else []
    if not shares:
        raise DataError("no query with a positive has a hard negative of its own")
    return PairAccuracy(fmean(shares), fmean(triplets) if triplets else None, len(shares))


def scores_of(query_id: QueryId, ranking: Ranking, wanted: Sequence[DocId], depth: int) -> dict[DocId, float]:
    """Return the scores of a query's documents as float32, in which the ranking compares them.

    Raises:
        DataError: the ranking may have been cut above one of the wanted documents.
    """
    scores = {hit.doc_id: float(np.float32(hit.score)) for hit in ranking}
    unranked = [doc_id for doc_id in wanted if doc_id not in scores]
    if unranked and len(ranking) >= depth:
        raise DataError(
            f"query {query_id!r}: document {unranked[0]!r} has no score, because the ranking was cut at {depth} "
            "documents; rank at least as many as the query has positives and hard negatives"
        )
    return scores


def preferred(scores: Mapping[DocId, float], positive: DocId, negative: DocId) -> float:
    """Return 1 if the positive scores more, ½ for equal scores, 0 otherwise."""
    of_positive, of_negative = (scores.get(doc_id, -np.inf) for doc_id in (positive, negative))
    return 0.5 if of_positive == of_negative else float(of_positive > of_negative)
