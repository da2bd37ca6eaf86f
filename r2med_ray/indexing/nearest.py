"""Finds the pairs of query and document that may be among the k best, by float32 products of blocks.

A block of documents is multiplied with all queries at once. Each query has a floor: the k-th best score so far, less
an error that the caller allows. Scores below it are passed over in one comparison, and those above it raise it. A
block has as many documents as were seen before it, so few more than k pairs of a query and a block are looked at.

Shape letters: Q queries, N documents, D embedding size, B documents of a block, K neighbours, P pairs.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from r2med_ray.types import FloatMatrix, FloatVector

FIRST_BLOCK = 1 << 10
LARGEST_BLOCK = 1 << 16
"""Fewest and most documents of a block, unless fewer are left."""

QUERIES_AT_ONCE = 1 << 10
"""Queries that should be searched for together: as many as need 32 MiB for the scores of `SCORES_AT_ONCE`."""

SCORES_AT_ONCE = 1 << 23
"""Most scores that are held at once, unless there are more queries than this allows for the first block: 32 MiB."""

Positions = npt.NDArray[np.int64]


class _Floors:
    """The k best scores of each query so far, and the lowest score that may still count."""

    def __init__(self, num_queries: int, k: int, reach_Q: npt.NDArray[np.float64]) -> None:
        self._best_QK = np.full((num_queries, k), -np.inf, np.float32)
        self._reach_Q = reach_Q
        self.floor_Q = np.full(num_queries, -np.inf, np.float32)

    def raise_to(self, kth_Q: FloatVector) -> None:
        """Take the k-th best score of some of the documents."""
        lowest_Q = (kth_Q - self._reach_Q).astype(np.float32)
        self.floor_Q = np.maximum(self.floor_Q, np.nextafter(lowest_Q, np.float32(-np.inf)))

    def add(self, query_P: Positions, score_P: FloatVector) -> None:
        """Take scores of other documents than before, sorted by query."""
        num_queries, k = self._best_QK.shape
        count_Q = np.bincount(query_P, minlength=num_queries)
        place_P = np.arange(len(query_P)) - (np.cumsum(count_Q) - count_Q)[query_P]
        most = int(count_Q.max())
        both = np.full((num_queries, k + most), -np.inf, np.float32)
        both[:, most:] = self._best_QK
        both[query_P, place_P] = score_P
        both.partition(most, axis=1)
        self._best_QK = both[:, most:]
        self.raise_to(self._best_QK[:, 0])


def nearest(
    documents_ND: FloatMatrix,
    queries_QD: FloatMatrix,
    k: int,
    reach_Q: npt.NDArray[np.float64],
    least_Q: FloatVector | None = None,
) -> list[Positions]:
    """Return for each query the positions of documents whose product is at most `reach_Q` below the k-th best.

    Args:
        documents_ND: contiguous float32.
        queries_QD: contiguous float32, at least one.
        k: from 1 to N.
        reach_Q: float64, shape (Q,). All documents are within an infinite reach.
        least_Q: float32, shape (Q,). Products that are further below it than the reach are left out, too.
    """
    floors = _Floors(len(queries_QD), k, reach_Q)
    if least_Q is not None:
        floors.raise_to(least_Q)
    largest = min(LARGEST_BLOCK, max(FIRST_BLOCK, SCORES_AT_ONCE // len(queries_QD)), len(documents_ND))
    scores = np.empty(len(queries_QD) * largest, np.float32)
    is_below = np.empty(len(scores), bool)
    found: list[tuple[Positions, Positions, FloatVector]] = []
    for start, end in _blocks(len(documents_ND), largest):
        shape = len(queries_QD), end - start
        size = shape[0] * shape[1]
        with np.errstate(over="ignore", invalid="ignore"):  # such queries have an infinite reach
            scores_QB = np.matmul(queries_QD, documents_ND[start:end].T, out=scores[:size].reshape(shape))
            if start == 0 and k <= end:
                floors.raise_to(np.partition(scores_QB, -k, axis=1)[:, -k])
            np.less(scores_QB, floors.floor_Q[:, None], out=is_below[:size].reshape(shape))
            within_P = np.flatnonzero(np.logical_not(is_below[:size], out=is_below[:size]))
            query_P, column_P = np.divmod(within_P, end - start)
            score_P = scores[within_P]
            if len(query_P):
                floors.add(query_P, score_P)
        found.append(_within(floors, query_P, column_P + start, score_P))
    query_P, position_P, _ = _within(floors, *map(np.concatenate, zip(*found, strict=True)))
    order_P = np.argsort(query_P, kind="stable")
    return np.split(position_P[order_P], np.cumsum(np.bincount(query_P, minlength=len(queries_QD)))[:-1])


def _within(
    floors: _Floors, query_P: Positions, position_P: Positions, score_P: FloatVector
) -> tuple[Positions, Positions, FloatVector]:
    """Return the pairs that are not below the floors."""
    kept = np.flatnonzero(~(score_P < floors.floor_Q[query_P]))
    return query_P[kept], position_P[kept], score_P[kept]


def _blocks(num_documents: int, largest: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of blocks, each as large as all before it within the limits."""
    start = 0
    while start < num_documents:
        end = min(num_documents, start + min(max(start, FIRST_BLOCK), largest))
        yield start, end
        start = end
