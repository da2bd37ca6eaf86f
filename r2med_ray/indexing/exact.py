"""Exact inner-product search, whose answer depends on no shard, batch or thread, to the last bit.

FAISS finds neighbours in float32. The last bits of a float32 product depend on what else is multiplied in the same
call. So FAISS is asked for more than k neighbours, and each neighbour is scored again by itself: products of float32
numbers are exact in float64, and their float64 sum is rounded to float32 once.

A document is scored again if its score is below the k-th by no more than twice the largest error of a float32 inner
product. If that may hold for more documents than FAISS was asked for, all documents are compared.

Shape letters: Q queries, N documents, D embedding size, C neighbours of a query.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import faiss
import numpy as np
import numpy.typing as npt

from r2med_ray.types import FloatMatrix, FloatVector

SPARE = 16
"""Neighbours that FAISS is asked for beyond k. Usually fewer documents than that are within the error below the
k-th."""

QUERIES_PER_WORKER = 32
"""Fewest queries of a thread. With fewer queries, a matrix product spends more time on reading than multiplying."""

GPU_LIMIT = 2048
"""The most neighbours that FAISS finds on a GPU (issue 932 of FAISS)."""

BLAS_THRESHOLD = 1_000
"""Queries × dimensions from which FAISS multiplies matrices. FAISS's own 128,000 is above the 100 queries × 768
dimensions of a task, and FAISS's other way is several times slower there."""


class Neighbours(NamedTuple):
    """Documents, in no order, and their scores. The k best documents are among them."""

    positions: npt.NDArray[np.int64]
    scores: FloatVector


class ExactSearch:
    """Inner-product search over one shard in memory.

    The search uses the GPUs that FAISS sees, or as many threads as FAISS would use (`OMP_NUM_THREADS`). Each thread
    gets queries of its own, not a share of every matrix product. So threads don't wait for one another on a busy
    machine.

    Args:
        vectors_ND: contiguous float32, all finite; not copied.
    """

    def __init__(self, vectors_ND: FloatMatrix) -> None:
        self._vectors_ND = vectors_ND
        self._longest = float(_lengths(vectors_ND).max(initial=0.0))
        self._gpu_index = _on_gpus(vectors_ND) if faiss.get_num_gpus() > 0 else None
        faiss.cvar.distance_compute_blas_threshold = BLAS_THRESHOLD

    @property
    def shape(self) -> tuple[int, int]:
        num_documents, dim = self._vectors_ND.shape
        return num_documents, dim

    def search(self, queries_QD: FloatMatrix, k: int) -> list[Neighbours]:
        """Return neighbours for each query; its k best documents are among them.

        Args:
            queries_QD: contiguous float32, all finite.
            k: at least 1.
        """
        threads = faiss.omp_get_max_threads()
        workers = min(threads, len(queries_QD) // QUERIES_PER_WORKER)
        if self._gpu_index is not None or workers < 2:
            return self._search(queries_QD, k)
        with ThreadPoolExecutor(
            workers, initializer=faiss.omp_set_num_threads, initargs=(threads // workers,)
        ) as pool:
            parts = pool.map(lambda part_QD: self._search(part_QD, k), np.array_split(queries_QD, workers))
            return [neighbours for part in parts for neighbours in part]

    def _search(self, queries_QD: FloatMatrix, k: int) -> list[Neighbours]:
        num_documents, dim = self.shape
        wanted = min(k + SPARE, num_documents)
        if self._gpu_index is not None and wanted <= GPU_LIMIT:
            near_QC, positions_QC = self._gpu_index.search(queries_QD, wanted)
        else:
            near_QC, positions_QC = faiss.knn(queries_QD, self._vectors_ND, wanted, faiss.METRIC_INNER_PRODUCT)
        errors_Q = _relative_error(dim) * self._longest * _lengths(queries_QD)
        lowest_Q = near_QC[:, min(k, wanted) - 1] - 2 * errors_Q
        found = []
        for query_D, near_C, positions_C, lowest in zip(queries_QD, near_QC, positions_QC, lowest_Q, strict=True):
            if wanted < num_documents and near_C[-1] >= lowest:
                within_reach = np.flatnonzero(self._vectors_ND @ query_D >= lowest)
            else:
                within_reach = positions_C[near_C >= lowest]
            found.append(self._score(query_D, within_reach))
        return found

    def _score(self, query_D: FloatVector, positions_C: npt.NDArray[np.int64]) -> Neighbours:
        """Score each neighbour by itself, with one float64 dot product per pair."""
        scores_C = np.vecdot(self._vectors_ND[positions_C].astype(np.float64), query_D.astype(np.float64))
        return Neighbours(positions_C, scores_C.astype(np.float32))


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
