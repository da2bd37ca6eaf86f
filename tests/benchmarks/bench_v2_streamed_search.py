"""V2: exact search over 1,000,000 float16 vectors of 384 dimensions on disk, one shard in memory at a time, k = 100.

    python -m tests.benchmarks.bench_v2_streamed_search [--small]

    A  faiss.IndexFlatIP over all vectors in memory, in float32        D  r2med_ray, which reads shard after shard

There are 876 queries, all of R2MED at once, and 40 shards of 25,000 documents in a store. D includes reading and
checking their files. First D must have the rankings of one index in memory to the last bit. Then A and D
take turns in one process. The
peak memory of D is measured in a process of its own. `--small` has 4,000 documents x 20 queries and no bar.
"""

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import faiss
import numpy as np

from r2med_ray.first_stages.vector_index import open_vector_index
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.indexing.embedding import vectors_table
from r2med_ray.indexing.factory import EXACT
from r2med_ray.indexing.keys import VECTORS_FILE
from r2med_ray.retrieval.search import ReadWhenSearched, search_shards
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Ranking
from tests.benchmarks.bench_m1_measures import own_peak_megabytes
from tests.benchmarks.findings import Findings, Measured
from tests.benchmarks.rounds import print_seconds, seconds_per_round, times_as_fast

DIMENSIONS = 384
K = 100
SHARDS = 40
ROUNDS = 3
MOST_MEGABYTES = 500
PUBMED = 24_000_000, 768


def vectors(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, DIMENSIONS), dtype=np.float32).astype(np.float16)


def ids(shard: int, count: int) -> list[str]:
    return [f"doc-{shard}-{row}" for row in range(count)]


def key(shard: int) -> ArtifactKey:
    return ArtifactKey("vectors", {"shard": shard})


def search_streamed(store: Path, queries_QD: np.ndarray) -> list[Ranking]:
    opened = ArtifactStore(str(store))
    shards = [
        ReadWhenSearched(partial(open_vector_index, opened, key(shard), EXACT, cosine=False))
        for shard in range(SHARDS)
    ]
    return search_shards(shards, queries_QD, K)


def write_store(folder: Path, shard_size: int) -> None:
    store = ArtifactStore(str(folder))
    for shard in range(SHARDS):
        with store.create(key(shard)) as writer:
            table = vectors_table(range(shard_size), ids(shard, shard_size), vectors(shard_size, shard))
            writer.write_table(VECTORS_FILE, table)


def peak_megabytes(folder: Path, num_queries: int) -> float:
    command = [sys.executable, "-m", "tests.benchmarks.bench_v2_streamed_search", "--memory-of", str(folder)]
    answer = subprocess.run([*command, "--queries", str(num_queries)], check=True, capture_output=True, text=True)
    return float(answer.stdout)


def print_pubmed(seconds: float, megabytes: float, num_documents: int, shard_size: int) -> None:
    """Print what 24 million vectors of 768 dimensions would take: products and bytes grow with their number."""
    documents, dimensions = PUBMED
    times = documents * dimensions / (num_documents * DIMENSIONS)
    on_disk = documents * dimensions * 2
    more = shard_size * (dimensions - DIMENSIONS) * (4 + 2 + 2) / 2**20
    print(
        f"{documents:,} x {dimensions}: "
        f"{documents:,} * {dimensions} / ({num_documents:,} * {DIMENSIONS}) = {times:g} "
        f"times the work, {seconds:.1f} s * {times:g} = {seconds * times / 60:.1f} min at best; on disk "
        f"{documents:,} * {dimensions} * 2 bytes = {on_disk / 1e9:.1f} GB; in memory {megabytes:.0f} MB + "
        f"{shard_size:,} * {dimensions - DIMENSIONS} * (4 + 2 + 2) bytes of one shard = {megabytes + more:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--memory-of", type=Path)
    parser.add_argument("--queries", type=int)
    given = parser.parse_args()
    if given.memory_of:
        search_streamed(given.memory_of, vectors(given.queries, SHARDS))
        print(own_peak_megabytes())
        return
    shard_size, num_queries = (100, 20) if given.small else (25_000, 876)
    num_documents, queries_QD = shard_size * SHARDS, vectors(num_queries, SHARDS).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        write_store(store, shard_size)
        documents_ND = np.concatenate([vectors(shard_size, shard) for shard in range(SHARDS)]).astype(np.float32)
        doc_ids = [doc_id for shard in range(SHARDS) for doc_id in ids(shard, shard_size)]
        in_memory = DenseIndex.build(doc_ids, documents_ND).search(queries_QD, K)
        findings = Findings(__file__, small=given.small)
        findings.gate("shard by shard = in memory, to the bit", holds=search_streamed(store, queries_QD) == in_memory)
        flat = faiss.IndexFlatIP(DIMENSIONS)
        flat.add(documents_ND)
        del documents_ND
        contestants = {"A": lambda: flat.search(queries_QD, K), "D": lambda: search_streamed(store, queries_QD)}
        seconds = seconds_per_round(contestants, ROUNDS)
        megabytes = peak_megabytes(store, num_queries)
    items = dict.fromkeys(seconds, num_queries)
    print_seconds(seconds, items, "queries")
    findings.add("V2 time", times_as_fast(seconds, items, "A", "D"))
    print(f"peak memory of D: {megabytes:.0f} MB")
    print_pubmed(min(seconds["D"]), megabytes, num_documents, shard_size)
    findings.add("V2 memory", Measured.once(megabytes / MOST_MEGABYTES))
    findings.close()


if __name__ == "__main__":
    main()
