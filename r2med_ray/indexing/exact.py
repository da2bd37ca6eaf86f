"""Exact inner-product search, whose answer depends on no shard, batch or thread, to the last bit.

Neighbours are found in float32. The last bits of a float32 product depend on what else is multiplied in the same
call. So each document whose score may belong to the k best is scored again by itself: products of float32 numbers are
exact in float64, and their float64 sum is rounded to float32 once.

A document is scored again if its score is below the k-th by no more than twice the largest error of a float32 inner
product. A GPU is asked for some more than k neighbours. If more documents than that may be within the error, the
query is searched for without the GPU.

Shape letters: Q queries, N documents, D embedding size, C neighbours of a query.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import faiss
import numpy as np
import numpy.typing as npt

from r2med_ray.indexing.nearest import QUERIES_AT_ONCE, nearest
from r2med_ray.types import FloatMatrix, FloatVector
from r2med_ray.vectors import exact_products

SPARE = 16
"""Neighbours that a GPU is asked for beyond k. Usually fewer documents than that are within the error below the
k-th."""

GPU_LIMIT = 2048
"""The most neighbours that FAISS finds on a GPU (issue 932 of FAISS)."""


class Neighbours(NamedTuple):
    """Documents, in no order, and their scores. The k best documents are among them."""

    positions: npt.NDArray[np.int64]
    scores: FloatVector


class ExactSearch:
    """Inner-product search over one shard in memory.

    The search uses the GPUs that FAISS sees. Without one, numpy's BLAS multiplies with its threads, and as many
    threads as FAISS would use (`OMP_NUM_THREADS`) score again.

    Args:
        vectors_ND: contiguous float32, all finite; not copied.
    """

    def __init__(self, vectors_ND: FloatMatrix) -> None:
        self._vectors_ND = vectors_ND
        self._longest = float(_lengths(vectors_ND).max(initial=0.0))
        self._gpu_index = _on_gpus(vectors_ND) if faiss.get_num_gpus() > 0 else None

    @property
    def shape(self) -> tuple[int, int]:
        num_documents, dim = self._vectors_ND.shape
        return num_documents, dim

    def search(self, queries_QD: FloatMatrix, k: int, least_Q: FloatVector | None = None) -> list[Neighbours]:
        """Return neighbours for each query; its k best documents are among them.

        Args:
            queries_QD: contiguous float32, all finite.
            k: at least 1.
            least_Q: float32, shape (Q,). Documents with lower scores may be missing.
        """
        if least_Q is None:
            least_Q = np.full(len(queries_QD), -np.inf, np.float32)
        blocks = [slice(at, at + QUERIES_AT_ONCE) for at in range(0, len(queries_QD), QUERIES_AT_ONCE)]
        return [neighbours for block in blocks for neighbours in self._search(queries_QD[block], k, least_Q[block])]

    def _search(self, queries_QD: FloatMatrix, k: int, least_Q: FloatVector) -> list[Neighbours]:
        near = self._near(queries_QD, min(k, self.shape[0]), least_Q)

        def scored(queries: npt.NDArray[np.intp]) -> list[Neighbours]:
            return [self._score(queries_QD[query], near[query]) for query in queries.tolist()]

        threads = faiss.omp_get_max_threads()
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(scored, np.array_split(np.arange(len(near)), threads))
            return [neighbours for part in parts for neighbours in part]

    def _near(self, queries_QD: FloatMatrix, k: int, least_Q: FloatVector) -> list[npt.NDArray[np.int64]]:
        """Return the positions of the documents that may be among the k best of each query."""
        reach_Q = self._reach(queries_QD)
        wanted = min(k + SPARE, self.shape[0])
        if self._gpu_index is None or wanted > GPU_LIMIT:
            return nearest(self._vectors_ND, queries_QD, k, reach_Q, least_Q)
        near_QC, positions_QC = self._gpu_index.search(queries_QD, wanted)
        lowest_Q = near_QC[:, k - 1] - reach_Q
        found = [
            positions_C[near_C >= lowest]
            for positions_C, near_C, lowest in zip(positions_QC, near_QC, lowest_Q, strict=True)
        ]
        for query in np.flatnonzero(near_QC[:, -1] >= lowest_Q) if wanted < self.shape[0] else ():
            [found[query]] = nearest(self._vectors_ND, queries_QD[query : query + 1], k, reach_Q[query : query + 1])
        return found

    def _reach(self, queries_QD: FloatMatrix) -> npt.NDArray[np.float64]:
        """Return how far below the k-th score a score may be whose document is among the k best: float64, (Q,).

        The reach is twice the largest error. Where a product may be beyond the range of float32, it is infinite.
        """
        product_Q = self._longest * _lengths(queries_QD)
        return np.where(product_Q < np.finfo(np.float32).max, 2 * _relative_error(self.shape[1]) * product_Q, np.inf)

    def _score(self, query_D: FloatVector, positions_C: npt.NDArray[np.int64]) -> Neighbours:
        """Score each neighbour by itself, with one float64 dot product per pair."""
        return Neighbours(positions_C, exact_products(np.take(self._vectors_ND, positions_C, axis=0), query_D))


def _lengths(vectors_ND: FloatMatrix) -> npt.NDArray[np.float64]:
    """Return the Euclidean lengths of vectors as float64."""
    squares_N: npt.NDArray[np.float64] = np.einsum("nd,nd->n", vectors_ND, vectors_ND, dtype=np.float64)
    return np.sqrt(squares_N)


def _relative_error(dim: int) -> float:
    """Return a bound of |computed − true| / (|q|·|d|) for a float32 inner product, whatever the order of its sums.

    The bound is n·u / (1 − n·u) with n operations and u = 2⁻²⁴ (Higham, Accuracy and Stability of Numerical
    Algorithms, 3.1). n is the number of dimensions plus four: the four cover the rounding of the compared scores.
    """
    rounding = (dim + 4) * 2.0**-24
    return rounding / (1 - rounding)


def _on_gpus(vectors_ND: FloatMatrix) -> "faiss.Index":
    """Copy the vectors to the GPU, or spread them over several GPUs."""
    index = faiss.IndexFlatIP(vectors_ND.shape[1])
    index.add(vectors_ND)
    options = faiss.GpuMultipleClonerOptions()
    options.shard = True
    return faiss.index_cpu_to_all_gpus(index, options)
