"""B1 at size: BM25 over a Zipf corpus of 1,000,000 documents x 120 tokens, queries of 100 to 450 tokens, k = 100.

    python -m tests.benchmarks.bench_b1_bm25_million [--small]

    A  bm25s with its numba backend, one thread        D  r2med_ray, one shard        E  r2med_ray, two shards in two
                                                          processes

The corpus is drawn as terms and not as texts, and A is given the weights of D: only the search is compared. First D
must have the documents and scores of A, and E must have those of D to the last bit. Then all take turns in one
process. A is given tokens; D and E analyse the queries too. `--small` has 5,000 documents and no bar.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor

import bm25s
import numpy as np

from r2med_ray.indexing.bm25_index import BM25Index, TermWeights
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.ranking import merge
from r2med_ray.types import Ranking
from tests.benchmarks.bench_b1_bm25 import ROW, K, differences, hold_shard, ids, joined, search_shard
from tests.benchmarks.findings import Findings
from tests.benchmarks.rounds import print_seconds, seconds_per_round, times_as_fast

TOKENS = 120
ROUNDS = 3
TOLERANCE = 1e-3
"""A adds a word that comes twice in a query twice, in float32; scores are some hundreds."""


def zipf_terms(num_documents: int, vocabulary: int, seed: int) -> ShardTerms:
    """Draw documents of words whose frequency falls as 1 / rank. Every word is its own term."""
    chances = np.cumsum(1 / np.arange(1, vocabulary + 1))
    drawn = np.random.default_rng(seed).random(num_documents * TOKENS) * chances[-1]
    pairs = np.searchsorted(chances, drawn) * num_documents + np.repeat(np.arange(num_documents), TOKENS)
    pairs, counts = np.unique(pairs, return_counts=True)
    words, rows = np.divmod(pairs, num_documents)
    there, starts = np.unique(words, return_index=True)
    return ShardTerms(
        analyzer=ROW.analyzer,
        num_documents=num_documents,
        terms=tuple(f"w{word:08}" for word in there.tolist()),
        offsets=np.append(starts, len(rows)),
        rows=rows.astype(np.int32),
        counts=counts.astype(np.int32),
    )


def zipf_queries(num_queries: int, vocabulary: int) -> list[list[str]]:
    random, chances = np.random.default_rng(2), np.cumsum(1 / np.arange(1, vocabulary + 1))
    lengths = random.integers(100, 451, num_queries).tolist()
    drawn = [np.searchsorted(chances, random.random(length) * chances[-1]) for length in lengths]
    return [[f"w{word:08}" for word in words.tolist()] for words in drawn]


def together(first: ShardTerms, second: ShardTerms) -> ShardTerms:
    """Return one shard with the documents of two."""
    names = sorted({*first.terms, *second.terms})
    place = {name: index for index, name in enumerate(names)}
    parts = [
        (np.repeat([place[term] for term in part.terms], np.diff(part.offsets)), part.rows + start, part.counts)
        for part, start in ((first, 0), (second, first.num_documents))
    ]
    terms, rows, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(terms, kind="stable")
    return ShardTerms(
        analyzer=first.analyzer,
        num_documents=first.num_documents + second.num_documents,
        terms=tuple(names),
        offsets=np.searchsorted(terms[order], np.arange(len(names) + 1)),
        rows=rows[order].astype(np.int32),
        counts=counts[order],
    )


def search_two(processes: list[ProcessPoolExecutor], queries: list[str]) -> list[Ranking]:
    asked = [process.submit(search_shard, queries) for process in processes]
    return [merge(rankings, K) for rankings in zip(*(answer.result() for answer in asked), strict=True)]


def bm25s_of(weights: TermWeights) -> bm25s.BM25:
    theirs = bm25s.BM25(k1=ROW.k1, b=ROW.b, method="lucene", backend="numba")
    theirs.scores = {
        "data": weights.weights,
        "indices": weights.rows,
        "indptr": weights.offsets,
        "num_docs": weights.num_documents,
    }
    theirs.nonoccurrence_array = None
    theirs.vocab_dict = {term: position for position, term in enumerate(weights.terms)}
    return theirs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    findings = Findings(__file__, small=small)
    half, num_queries = (2_500, 20) if small else (500_000, 64)
    vocabulary = 4 * half
    shards = [zipf_terms(half, vocabulary, seed) for seed in (1, 2)]
    statistics = CorpusStatistics.merge(map(CorpusStatistics.of_shard, shards))
    weights = TermWeights.of_terms(together(*shards), statistics, ROW)
    ours, theirs = BM25Index(weights, ids(0, 2 * half), statistics, ROW), bm25s_of(weights)
    questions = zipf_queries(num_queries, vocabulary)
    queries = joined(questions)
    print(f"{2 * half} documents, {len(weights.rows)} pairs of a term and a document, {num_queries} queries")
    processes = [  # each is forked, and so has its shard without a copy
        ProcessPoolExecutor(1, initializer=hold_shard, initargs=(shard, start, statistics))
        for shard, start in zip(shards, (0, half), strict=True)
    ]

    def ask_bm25s() -> tuple[np.ndarray, np.ndarray]:
        return theirs.retrieve(questions, k=K, show_progress=False)

    wrong = list(differences(ours.search(queries, K), *ask_bm25s(), tolerance=TOLERANCE))
    if search_two(processes, queries) != ours.search(queries, K):
        wrong.append("two shards answer otherwise than one")
    findings.gate(f"two shards = one shard = bm25s: {'; '.join(wrong) or 'the same'}", holds=not wrong)
    contestants = {
        "A": ask_bm25s,
        "D": lambda: ours.search(queries, K),
        "E": lambda: search_two(processes, queries),
    }
    seconds = seconds_per_round(contestants, ROUNDS)
    for process in processes:
        process.shutdown()
    items = dict.fromkeys(seconds, num_queries)
    print_seconds(seconds, items, "queries")
    findings.add("B1M bm25s", times_as_fast(seconds, items, "D", "A"))
    findings.add("B1M two", times_as_fast(seconds, items, "E", "A"))
    findings.close()


if __name__ == "__main__":
    main()
