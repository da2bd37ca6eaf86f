"""V1: exact search over 60,000 vectors of 768 dimensions, k = 100.

    python -m tests.benchmarks.bench_v1_exact_search [--small]

    A  faiss.IndexFlatIP as it comes        B  one numpy matrix product and argpartition
    D  r2med_ray: ids and scores that no shard or batch changes        S  the matrix product alone, in float32

There are 876 queries, all of R2MED at once, or 103 queries, one of its tasks. First D must have the documents of a
brute-force search in float64. Then all take turns in one process, each with the same number of threads
(`OMP_NUM_THREADS`). `OPENBLAS_CORETYPE` and `OPENBLAS_L2_SIZE` keep their values, for all sides. `--small` has 3,000
documents and no bar.

FAISS as it comes multiplies no matrices for 103 queries, and its wheel brings an older BLAS than numpy's. So D is
held against S, too, which no exact search in float32 can beat.
"""

import argparse
import os

import faiss
import numpy as np

from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.ranking import best_of_scores
from tests.benchmarks.findings import Findings
from tests.benchmarks.rounds import print_seconds, seconds_per_round, times_as_fast

DIMENSIONS = 768
K = 100
ROUNDS = 7


def unit_vectors(count: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSIONS), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def measure(findings: Findings, num_documents: int, num_queries: int) -> None:
    documents_ND, queries_QD = unit_vectors(num_documents, 1), unit_vectors(num_queries, 2)
    doc_ids = [f"doc-{row}" for row in range(num_documents)]
    flat = faiss.IndexFlatIP(DIMENSIONS)
    flat.add(documents_ND)
    ours = DenseIndex.build(doc_ids, documents_ND)

    def ask_numpy() -> object:
        scores_QN = queries_QD @ documents_ND.T
        nearest_QK = np.argpartition(scores_QN, -K, axis=1)[:, -K:]
        return np.take_along_axis(scores_QN, nearest_QK, axis=1)

    true_ND = documents_ND.astype(np.float64)
    claim = "all rankings are those of the float64 brute force"
    rankings = iter(ours.search(queries_QD, K))
    for some_QD in np.array_split(queries_QD.astype(np.float64), -(-num_queries // 64)):
        for scores_N, ranking in zip((some_QD @ true_ND.T).astype(np.float32), rankings, strict=False):
            if best_of_scores(scores_N, doc_ids, K) != ranking:
                findings.gate(f"{claim}, but not all are", holds=False)
    findings.gate(claim, holds=True)
    del true_ND
    print(f"{num_documents} documents, {num_queries} queries")
    seconds = seconds_per_round(
        {
            "A": lambda: flat.search(queries_QD, K),
            "B": ask_numpy,
            "D": lambda: ours.search(queries_QD, K),
            "S": lambda: queries_QD @ documents_ND.T,
        },
        ROUNDS,
    )
    items = dict.fromkeys(seconds, num_queries)
    print_seconds(seconds, items, "queries")
    times_as_fast(seconds, items, "D", "B")
    findings.add(f"V1 FAISS {num_queries}", times_as_fast(seconds, items, "D", "A"))
    findings.add(f"V1 product {num_queries}", times_as_fast(seconds, items, "D", "S"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    settings = ", ".join(f"{name}={os.environ.get(name)}" for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"))
    print(f"{faiss.omp_get_max_threads()} threads, {settings}")
    findings = Findings(__file__, small=small)
    for num_queries in (876, 103):
        measure(findings, 3_000 if small else 60_000, num_queries)
    findings.close()


if __name__ == "__main__":
    main()
