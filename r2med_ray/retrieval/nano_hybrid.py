"""NanoR2MED's `reranking_hybrid`: rank fusion with its own ties, and a positive for each list without one.

The score of a document is the sum of 1 / (100 + rank) over lists of 500 documents, rank from 1. Documents with equal
scores are ordered by their best rank in any list, then by doc id ascending. 100 documents stay. If no positive of the
query is among them, one positive follows at rank 101; a random generator with a fixed seed draws it. A reranker's
figure over such lists profits from the document at rank 101.

Source: scripts/build_reranking_hybrid_nano_dataset.py of github.com/hakari-bench/hakari-bench at 217c8723.
"""

import random
from collections.abc import Collection, Sequence

from r2med_ray.errors import DataError
from r2med_ray.retrieval.ranked_lists import NUM_CANDIDATES, Lists
from r2med_ray.types import DocId, Qrels, QueryId, positives_of

RRF_K = 100
LIST_DEPTH = 500
SEED = 20260524


def hybrid_list(
    lists: Sequence[Sequence[DocId]], *, k: float = RRF_K, weights: Sequence[float] | None = None
) -> list[DocId]:
    """Fuse the lists of one query, best first. Sums are taken in float64, in the order of the lists.

    Args:
        lists: one or more, each without repeats.
        k: the constant of reciprocal rank fusion.
        weights: one per list; 1 each if left out.
    """
    scores: dict[DocId, float] = {}
    best_ranks: dict[DocId, int] = {}
    for ranked, weight in zip(lists, weights or [1.0] * len(lists), strict=True):
        for rank, doc_id in enumerate(ranked, start=1):
            scores[doc_id] = scores.get(doc_id, 0.0) + weight / (k + rank)
            best_ranks[doc_id] = min(best_ranks.get(doc_id, rank), rank)
    order = sorted(scores, key=lambda doc_id: (-scores[doc_id], best_ranks[doc_id], doc_id))
    return order[:NUM_CANDIDATES]


def safeguard(
    candidates: Sequence[DocId], positives: Collection[DocId], *, split: str, query_id: QueryId
) -> DocId | None:
    """Return the positive to put behind the candidates.

    Return None if a positive is among the candidates, or if the query has no positive.

    Args:
        candidates: the query's candidates, best first.
        positives: all positives of the query.
        split: name of the task; a part of the seed.
        query_id: the query's id; a part of the seed too.
    """
    if not positives or not set(positives).isdisjoint(candidates):
        return None
    seed = "\0".join((str(SEED), split, query_id, "positive_safeguard"))
    return random.Random(seed).choice(sorted(positives))


def hybrid_lists(sources: Sequence[Lists], qrels: Qrels, *, split: str) -> dict[QueryId, list[DocId]]:
    """Return the list of every query, with a safeguard if the list needs one.

    Args:
        sources: rankings of the same queries, e.g. by BM25 and by a dense encoder; the first 500 of each count.
        qrels: documents with a grade above 0 are positives.
        split: name of the task.

    Raises:
        DataError: see `audit`.
    """
    found: dict[QueryId, list[DocId]] = {}
    for query_id in sources[0]:
        ranked = hybrid_list([lists[query_id][:LIST_DEPTH] for lists in sources])
        added = safeguard(ranked, positives_of(qrels.get(query_id, {})), split=split, query_id=query_id)
        found[query_id] = ranked if added is None else [*ranked, added]
    audit(found, qrels)
    return found


def audit(lists: Lists, qrels: Qrels) -> None:
    """Check that lists have what NanoR2MED promises.

    Raises:
        DataError: a list has a document twice, more than 101 documents, or none of its query's positives.
    """
    for query_id, ranked in lists.items():
        where = f"candidates of query {query_id!r}"
        if len(set(ranked)) < len(ranked):
            raise DataError(f"{where}: a document is in the list twice")
        if len(ranked) > NUM_CANDIDATES + 1:
            raise DataError(f"{where}: {len(ranked)} documents, at most {NUM_CANDIDATES + 1} expected")
        positives = positives_of(qrels.get(query_id, {}))
        if positives and positives.isdisjoint(ranked):
            raise DataError(f"{where}: none of its {len(positives)} positives is in the list")
