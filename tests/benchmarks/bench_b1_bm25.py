"""B1: BM25 over a Zipf corpus of 50,000 documents x 120 tokens, 100 queries of 100 to 450 tokens, k = 100.

    python -m tests.benchmarks.bench_b1_bm25 [--small]

    A  bm25s with its numba backend, one thread        C  rank_bm25, five queries, once
    D  r2med_ray, one shard        E  r2med_ray, two shards in two processes

First D must have the documents and scores of A, and E must have those of D to the last bit. Then A, D and E take
turns in one process. A and C are given tokens; D and E analyse the text too. `--small` has 2,000 documents and no
bar. The script needs numba, because bm25s has no fast backend without it.
"""

import argparse
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import bm25s
import numpy as np
from rank_bm25 import BM25Okapi

from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.indexing.bm25_index import BM25Index
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.ranking import merge
from r2med_ray.types import Ranking
from tests.benchmarks.findings import Findings
from tests.benchmarks.rounds import print_seconds, seconds_per_round, times_as_fast

ROW = BM25_ROWS["bm25"]
K = 100
ROUNDS = 5
TOLERANCE = 1e-4

Tokens = list[list[str]]


def zipf_texts(lengths: Iterable[int], vocabulary: int, seed: int) -> Tokens:
    """Draw texts of words whose frequency falls as 1 / rank. Every word is its own term."""
    weights = 1 / np.arange(1, vocabulary + 1)
    random = np.random.default_rng(seed)
    words = np.array([f"w{rank}" for rank in range(vocabulary)])
    return [random.choice(words, length, p=weights / weights.sum()).tolist() for length in lengths]


def joined(texts: Tokens) -> list[str]:
    return [" ".join(text) for text in texts]


def ids(start: int, count: int) -> list[str]:
    return [f"doc-{number}" for number in range(start, start + count)]


_shard: BM25Index


def hold_shard(terms: ShardTerms, start: int, statistics: CorpusStatistics) -> None:
    global _shard
    _shard = BM25Index.build(terms, ids(start, terms.num_documents), statistics, ROW)


def search_shard(queries: list[str]) -> list[Ranking]:
    return _shard.search(queries, K)


class TwoProcesses:
    """Two shards. Each is held by a process of its own."""

    def __init__(self, texts: list[str]) -> None:
        half = len(texts) // 2
        shards = [ShardTerms.from_texts(part) for part in (texts[:half], texts[half:])]
        statistics = CorpusStatistics.merge(map(CorpusStatistics.of_shard, shards))
        self.processes = [
            ProcessPoolExecutor(1, initializer=hold_shard, initargs=(shard, start, statistics))
            for shard, start in zip(shards, (0, half), strict=True)
        ]

    def search(self, queries: list[str]) -> list[Ranking]:
        asked = [process.submit(search_shard, queries) for process in self.processes]
        return [merge(rankings, K) for rankings in zip(*(answer.result() for answer in asked), strict=True)]

    def __enter__(self) -> "TwoProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.shutdown()


def differences(
    ours: list[Ranking], documents_QK: np.ndarray, scores_QK: np.ndarray, tolerance: float = TOLERANCE
) -> Iterator[str]:
    """Yield each difference from bm25s: a score at a rank, or a document that no tie explains."""
    for query, ranking in enumerate(ours):
        theirs = {f"doc-{row}": score for row, score in zip(documents_QK[query], scores_QK[query], strict=True)}
        gap = np.abs(np.array([hit.score for hit in ranking]) - scores_QK[query]).max()
        if gap > tolerance:
            yield f"query {query}: scores differ by {gap:.2g}"
        for hit in ranking:
            if hit.score > scores_QK[query][-1] + tolerance and hit.doc_id not in theirs:
                yield f"query {query}: {hit.doc_id} is not among bm25s's"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    findings = Findings(__file__, small=small)
    num_documents, num_queries = (2_000, 10) if small else (50_000, 100)
    corpus = zipf_texts([120] * num_documents, vocabulary=2 * num_documents, seed=1)
    lengths = np.random.default_rng(2).integers(100, 451, num_queries)
    questions = zipf_texts(lengths, vocabulary=2 * num_documents, seed=3)
    texts, queries = joined(corpus), joined(questions)

    start = time.perf_counter()
    theirs = bm25s.BM25(k1=ROW.k1, b=ROW.b, method="lucene", backend="numba")
    theirs.index(corpus, show_progress=False)
    indexed = time.perf_counter()
    terms = ShardTerms.from_texts(texts)
    ours = BM25Index.build(terms, ids(0, num_documents), CorpusStatistics.of_shard(terms), ROW)
    seconds = {"A": indexed - start, "D": time.perf_counter() - indexed}
    print(f"index: A {num_documents / seconds['A']:.0f} documents/s, D {num_documents / seconds['D']:.0f}")

    def ask_bm25s() -> tuple[np.ndarray, np.ndarray]:
        return theirs.retrieve(questions, k=K, show_progress=False)

    with TwoProcesses(texts) as two:
        wrong = list(differences(ours.search(queries, K), *ask_bm25s()))
        if two.search(queries) != ours.search(queries, K):
            wrong.append("two shards answer otherwise than one")
        findings.gate(f"two shards = one shard = bm25s: {'; '.join(wrong) or 'the same'}", holds=not wrong)
        contestants = {
            "A": ask_bm25s,
            "D": lambda: ours.search(queries, K),
            "E": lambda: two.search(queries),
        }
        by_contestant = seconds_per_round(contestants, ROUNDS)
    okapi = BM25Okapi(corpus)
    start = time.perf_counter()
    for question in questions[:5]:
        np.argpartition(okapi.get_scores(question), -K)
    by_contestant["C"] = [time.perf_counter() - start]
    items = {"A": num_queries, "C": 5, "D": num_queries, "E": num_queries}
    print_seconds(by_contestant, items, "queries")
    times_as_fast(by_contestant, items, "E", "A")
    findings.add("B1 bm25s", times_as_fast(by_contestant, items, "D", "A"))
    findings.add("B1 rank_bm25", times_as_fast(by_contestant, items, "D", "C"))
    findings.close()


if __name__ == "__main__":
    main()
