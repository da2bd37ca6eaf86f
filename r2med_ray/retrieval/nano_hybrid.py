"""NanoR2MED's `reranking_hybrid`: reciprocal rank fusion in its own order, and a positive for whoever has none.

The score of a document is the sum of 1 / (100 + rank) over lists of 500, rank from 1. Equal scores fall by the best
rank in any list, then by doc id ascending; 100 stay. Where none of them is a positive of the query, one positive
follows at rank 101, drawn with a seed. (scripts/build_reranking_hybrid_nano_dataset.py of
github.com/hakari-bench/hakari-bench at 217c8723.) A reranker's figure over such lists profits from the 101st.
"""

import random
from collections.abc import Collection, Mapping, Sequence

from r2med_ray.errors import DataError
from r2med_ray.retrieval.candidates import NUM_CANDIDATES, Lists
from r2med_ray.types import DocId, Qrels, QueryId

RRF_K = 100
LIST_DEPTH = 500
SEED = 20260524


def hybrid_list(
    lists: Sequence[Sequence[DocId]], *, k: float = RRF_K, weights: Sequence[float] | None = None
) -> list[DocId]:
    """Fuse the lists of one query, best first; sums are taken in float64, in the order of the lists.

    Args:
        lists: one or more, each without repeats.
        k: the constant of reciprocal rank fusion.
        weights: one per list; 1 where it is left out.
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
    """Return the positive that is to follow the candidates, or None where they have one already.

    Args:
        candidates: those of the query, best first.
        positives: all of the query, at least one.
        split: name of the task; a part of the seed.
        query_id: another part of it.
    """
    if not positives or not set(positives).isdisjoint(candidates):
        return None
    seed = "\0".join((str(SEED), split, query_id, "positive_safeguard"))
    return random.Random(seed).choice(sorted(positives))


def hybrid_lists(sources: Sequence[Lists], qrels: Qrels, *, split: str) -> dict[QueryId, list[DocId]]:
    """Return the list of every query, with its safeguard where it needs one.

    Args:
        sources: rankings of the same queries, e.g. by BM25 and by a dense encoder; the first 500 of each count.
        qrels: positives are what has a grade above 0.
        split: name of the task.

    Raises:
        DataError: see `audit`.
    """
    found: dict[QueryId, list[DocId]] = {}
    for query_id in sources[0]:
        ranked = hybrid_list([lists[query_id][:LIST_DEPTH] for lists in sources])
        added = safeguard(ranked, positives_of(qrels, query_id), split=split, query_id=query_id)
        found[query_id] = ranked if added is None else [*ranked, added]
    audit(found, qrels)
    return found


def audit(lists: Lists, qrels: Qrels) -> None:
    """Require that lists are what NanoR2MED promises of them.

    Raises:
        DataError: a document stands twice in a list, a list has more than 101, or none of a query's positives.
    """
    for query_id, ranked in lists.items():
        where = f"candidates of query {query_id!r}"
        if len(set(ranked)) < len(ranked):
            raise DataError(f"{where}: a document stands there twice")
        if len(ranked) > NUM_CANDIDATES + 1:
            raise DataError(f"{where}: {len(ranked)} documents, at most {NUM_CANDIDATES + 1} expected")
        positives = positives_of(qrels, query_id)
        if positives and positives.isdisjoint(ranked):
            raise DataError(f"{where}: none of its {len(positives)} positives is there")


def positives_of(qrels: Qrels, query_id: QueryId) -> set[DocId]:
    """Return the documents with a grade above 0."""
    judged: Mapping[DocId, int] = qrels.get(query_id, {})
    return {doc_id for doc_id, grade in judged.items() if grade > 0}
