"""V3: MaxSim over codes of token vectors, one bit per component, beside the exhaustive search of whole vectors.

    python -m tests.benchmarks.bench_v3_token_codes [--small]

    A  `retriever: {model: M}`: all tokens in memory in float16, every document scored in float64
    D  `retriever: {model: M, output_dtype: binary}`: codes in memory, 4 candidates per document scored exactly, by
       tokens that are read from disk

There are 20,000 documents of 40 to 200 tokens in four shards, and 30 queries of 32 tokens; vectors have 128
components, k = 100. Vectors are drawn around 4,000 centres, as tokens have few meanings. D includes reading and
checking the files. First D's documents must have the scores of A to the last bit. Then A and D take turns in one
process. Memory is that of a process of its own, above what it has before the index is opened. The memory that D may
take is tokens × (128 / 8 + 4) bytes, and 150 MB for what is read at once.
`--small` has 400 documents and no bar.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from r2med_ray.first_stages.checkpoint_making import TOKEN_VECTORS
from r2med_ray.indexing.codes import OutputDtype
from r2med_ray.indexing.keys import VECTORS_FILE
from r2med_ray.indexing.late_interaction import HalfMatrix, TokenQuery, query_table, read_queries, token_table
from r2med_ray.retrieval.search import PlainRetriever
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Query, Run
from r2med_ray.vectors import unit_length
from tests.benchmarks.bench_m1_measures import own_peak_megabytes
from tests.benchmarks.findings import Findings, Measured
from tests.benchmarks.rounds import print_seconds, seconds_per_round, times_as_fast

DIMENSIONS, CENTRES, SHARDS, QUERIES, QUERY_TOKENS, K, ROUNDS, RESCORE = 128, 4_000, 4, 30, 32, 100, 3, 4
READ_AT_ONCE_MEGABYTES = 150


def drawn(lengths: Sequence[int], seed: int) -> list[HalfMatrix]:
    """Return the tokens of some texts: float16 of unit length."""
    centres = np.random.default_rng(0).standard_normal((CENTRES, DIMENSIONS))
    draw = np.random.default_rng(seed)
    total = sum(lengths)
    tokens = centres[draw.integers(CENTRES, size=total)] + 0.5 * draw.standard_normal((total, DIMENSIONS))
    return np.split(unit_length(tokens.astype(np.float32)).astype(np.float16), np.cumsum(lengths)[:-1])


def key(shard: int) -> ArtifactKey:
    return ArtifactKey("token-vectors", {"shard": shard})


def write_store(folder: Path, num_documents: int) -> int:
    """Write the shards, and return how many tokens they have."""
    store, total = ArtifactStore(str(folder)), 0
    for shard in range(SHARDS):
        rows = range(num_documents // SHARDS)
        lengths = np.random.default_rng(shard).integers(40, 201, size=len(rows)).tolist()
        with store.create(key(shard)) as writer:
            ids = [f"d{shard}-{row}" for row in rows]
            writer.write_table(VECTORS_FILE, token_table(rows, ids, drawn(lengths, shard)))
        total += sum(lengths)
    return total


def asked() -> list[TokenQuery]:
    texts = drawn([QUERY_TOKENS] * QUERIES, SHARDS)
    return read_queries(query_table([f"q{number}" for number in range(QUERIES)], [[text] for text in texts]))


def opened(folder: Path, output_dtype: OutputDtype) -> PlainRetriever[list[TokenQuery]]:
    store, queries = ArtifactStore(str(folder)), asked()
    shards = [TOKEN_VECTORS.open_index(store.get(key(shard)), output_dtype) for shard in range(SHARDS)]
    multiplier = 0 if output_dtype == "float32" else RESCORE
    return PlainRetriever("tokens", lambda wanted: queries, shards, rescore_multiplier=multiplier)


def searched(retriever: PlainRetriever[list[TokenQuery]]) -> Run:
    return retriever.retrieve([Query(query_id=f"q{number}", text="") for number in range(QUERIES)], k=K)


def megabytes(folder: Path, output_dtype: OutputDtype) -> float:
    command = [sys.executable, "-m", "tests.benchmarks.bench_v3_token_codes", "--memory-of", str(folder)]
    answer = subprocess.run([*command, "--dtype", output_dtype], check=True, capture_output=True, text=True)
    return float(answer.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--memory-of", type=Path)
    parser.add_argument("--dtype")
    given = parser.parse_args()
    if given.memory_of:
        asked()
        before = own_peak_megabytes()
        searched(opened(given.memory_of, given.dtype))
        print(own_peak_megabytes() - before)
        return
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        tokens = write_store(store, 400 if given.small else 20_000)
        retrievers = {"A": opened(store, "float32"), "D": opened(store, "binary")}
        exact, near = (searched(each).rankings for each in retrievers.values())
        findings = Findings(__file__, small=given.small)
        scores = {query_id: dict(ranking) for query_id, ranking in exact.items()}
        same = all(hit.score == scores[q].get(hit.doc_id, hit.score) for q, hits in near.items() for hit in hits)
        findings.gate("what D finds has A's scores, to the bit", holds=same)
        shares = [
            len({hit.doc_id for hit in exact[q]} & {hit.doc_id for hit in hits}) / K for q, hits in near.items()
        ]
        items = dict.fromkeys(retrievers, QUERIES)
        contestants = {name: partial(searched, each) for name, each in retrievers.items()}
        seconds = seconds_per_round(contestants, ROUNDS)
        of_whole, of_codes = megabytes(store, "float32"), megabytes(store, "binary")
    print_seconds(seconds, items, "queries")
    stated = tokens * (DIMENSIONS / 8 + 4) / 2**20 + READ_AT_ONCE_MEGABYTES
    print(f"{tokens:,} tokens: A {of_whole:.0f} MB, D {of_codes:.0f} MB of {stated:.0f} MB that it may take")
    findings.add("V3 found", Measured(float(np.mean(shares)), min(shares), max(shares)))
    findings.add("V3 speed", times_as_fast(seconds, items, "D", "A"))
    findings.add("V3 memory", Measured.once(of_codes / stated))
    findings.close()


if __name__ == "__main__":
    main()
