"""The figures of the COMPSCI-646 group's R2MED code, as it computes them (commit efbb2cd), for comparison only.

The code is in eval_retrieval.py:390-414 (dense) and eval_BM25.py:51-75. Each figure is once for the hard negatives of
all queries, and once, with `true_`, for the query's own. Places are counted from 0.

| figure               | as coded                                               | what is wrong with it           |
|----------------------|--------------------------------------------------------|---------------------------------|
| `has_hn_rate_at_k`   | share of queries with one among the first k            | pools the hard negatives of all |
| `hn_rate_at_k`       | mean of their number over the queries that have one    | a count, and only over failures |
| `hn_rate_ratio_at_k` | that divided by k                                      | the same                        |
| `hn_rr_at_k`         | mean of the first place over the queries that have one | an index, not its reciprocal    |

Where no query has one, the mean is -1 in the dense path and 0 in BM25's. BM25's path reads the ranking. The dense
path reads the array of a min-heap of 100 (BEIR 2.2.0, exact_search.py), which begins with the last of the ranking.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal, TypeAlias

from r2med_ray.ranking import best
from r2med_ray.types import DocId, HardNegatives, QueryId, Ranking, Run

Path: TypeAlias = Literal["bm25", "dense"]

HEAP = 100
"""Documents of BEIR's heap."""


def comp646_figures(
    run: Run, query_ids: Iterable[QueryId], negatives: HardNegatives, *, cutoffs: Sequence[int], path: Path
) -> dict[str, float]:
    """Return the code's name of a figure → its value.

    Two things differ. A query without hard negatives of its own counts as one without hits, where the code stops with
    a KeyError. And the heap is filled in the order of the ranking, as `topk` gave it on a CPU; the code leaves the
    order to the device.

    Args:
        run: the rankings, made over the corpus with the hard negatives of all queries.
        query_ids: the queries that the code goes through.
        negatives: the labels.
        cutoffs: the values of k.
        path: which of the two programs.
    """
    every = frozenset[str]().union(*negatives.values())
    read = {query_id: _READ[path](run.rankings.get(query_id, ())) for query_id in query_ids}
    figures: dict[str, float] = {}
    for k in cutoffs:
        for prefix, wanted in (("", dict.fromkeys(read, every)), ("true_", negatives)):
            hits = [_places(documents[:k], wanted.get(query_id, ())) for query_id, documents in read.items()]
            counts, firsts = [len(found) for found in hits if found], [found[0] for found in hits if found]
            nothing = -1.0 if path == "dense" else 0.0
            rate = fmean(counts) if counts else nothing
            figures[f"has_{prefix}hn_rate_at_{k}"] = len(counts) / len(read)
            figures[f"{prefix}hn_rate_at_{k}"] = rate
            figures[f"{prefix}hn_rate_ratio_at_{k}"] = rate / k
            figures[f"{prefix}hn_rr_at_{k}"] = fmean(firsts) if firsts else nothing
    return figures


def ranking_order(ranking: Ranking) -> list[DocId]:
    """Return the documents best first, as BM25's path reads them."""
    return [hit.doc_id for hit in best(ranking, HEAP)]


def heap_order(ranking: Ranking) -> list[DocId]:
    """Return the documents in the order of BEIR's heap, as the dense path reads them."""
    heap: list[tuple[float, DocId]] = []
    for hit in best(ranking, HEAP):
        heapq.heappush(heap, (hit.score, hit.doc_id))
    return [doc_id for _, doc_id in heap]


_READ: Mapping[Path, Callable[[Ranking], list[DocId]]] = {"bm25": ranking_order, "dense": heap_order}


def _places(documents: Sequence[DocId], wanted: Collection[DocId]) -> list[int]:
    return [place for place, doc_id in enumerate(documents) if doc_id in wanted]
