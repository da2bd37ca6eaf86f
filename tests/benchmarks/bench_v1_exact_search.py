"""V1: exact search over 60,000 vectors of 768 dimensions, k = 100.

    python -m tests.benchmarks.bench_v1_exact_search [--small]

    A  faiss.IndexFlatIP as it comes        B  one numpy matrix product and argpartition
    D  r2med_ray: ids and scores that no shard or batch changes        S  the matrix product alone, in float32

There are 876 queries, all of R2MED at once, or 103 queries, one of its tasks. First D must have the documents of a
brute-force search in float64. Then all take turns in one process, each with the same number of threads
(`OMP_NUM_THREADS`). `OPENBLAS_CORETYPE` and `OPENBLAS_L2_SIZE` keep their values, for all sides. `--small` has 3,000
documents x 50 queries and no bar.

With 876 queries, A is little more than the matrix product. D also scores again and ranks ids. So D is behind A on an
idle CPU that has only float32, and ahead of A on a busy CPU. With 103 queries, FAISS as it comes multiplies no
matrices.
"""

import argparse
import os
import sys

import faiss
import numpy as np

from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.ranking import best_of_scores
from tests.benchmarks.rounds import print_seconds, seconds_per_round, times_as_fast

DIMENSIONS = 768
K = 100
ROUNDS = 7
BAR = 1.0
STOCK_BLAS_THRESHOLD = faiss.cvar.distance_compute_blas_threshold


def unit_vectors(count: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSIONS), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def measure(num_documents: int, num_queries: int) -> float:
    """Print the time of each contestant, and return how many times as fast as A we are."""
    documents_ND, queries_QD = unit_vectors(num_documents, 1), unit_vectors(num_queries, 2)
    doc_ids = [f"doc-{row}" for row in range(num_documents)]
    flat = faiss.IndexFlatIP(DIMENSIONS)
    flat.add(documents_ND)
    ours = DenseIndex.build(doc_ids, documents_ND)
    our_threshold = faiss.cvar.distance_compute_blas_threshold

    def ask_faiss() -> object:
        faiss.cvar.distance_compute_blas_threshold = STOCK_BLAS_THRESHOLD
        try:
            return flat.search(queries_QD, K)
        finally:
            faiss.cvar.distance_compute_blas_threshold = our_threshold

    def ask_numpy() -> object:
        scores_QN = queries_QD @ documents_ND.T
        nearest_QK = np.argpartition(scores_QN, -K, axis=1)[:, -K:]
        return np.take_along_axis(scores_QN, nearest_QK, axis=1)

    true_ND = documents_ND.astype(np.float64)
    for query_D, ranking in zip(queries_QD, ours.search(queries_QD, K), strict=True):
        scores_N = (true_ND @ query_D.astype(np.float64)).astype(np.float32)
        if best_of_scores(scores_N, doc_ids, K) != ranking:
            sys.exit("a ranking differs from the float64 brute force")
    print(f"{num_documents} documents, {num_queries} queries")
    seconds = seconds_per_round(
        {
            "A": ask_faiss,
            "B": ask_numpy,
            "D": lambda: ours.search(queries_QD, K),
            "S": lambda: queries_QD @ documents_ND.T,
        },
        ROUNDS,
    )
    items = dict.fromkeys(seconds, num_queries)
    print_seconds(seconds, items, "queries")
    times_as_fast(seconds, items, "D", "B")
    times_as_fast(seconds, items, "D", "S")
    return times_as_fast(seconds, items, "D", "A")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    settings = ", ".join(f"{name}={os.environ.get(name)}" for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"))
    print(f"{faiss.omp_get_max_threads()} threads, {settings}")
    reached = [measure(*sizes) for sizes in ([(3_000, 50)] if small else [(60_000, 876), (60_000, 103)])]
    if min(reached) < BAR and not small:
        sys.exit(f"missed: D must be at least {BAR} times as fast as A")


if __name__ == "__main__":
    main()
