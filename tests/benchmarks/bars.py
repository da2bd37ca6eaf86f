"""Every bar of the benchmarks: which script measures it, what is compared with what, and what the ratio must be."""

from dataclasses import dataclass

LLM = ("bench_e3_pooling", "bench_l3_served")
"""The scripts that need vLLM, and so an environment of its own."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar for a ratio: of rates or shares it has to be at least a value, of times or sizes at most a value."""

    name: str
    ours: str
    anchor: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def wanted(self) -> str:
        return f"≤ {self.at_most:.3g}" if self.at_least is None else f"≥ {self.at_least:.3g}"

    def holds(self, ratio: float) -> bool:
        return (self.at_least is None or ratio >= self.at_least) and (self.at_most is None or ratio <= self.at_most)


S1 = {
    "convert": "loading and converting",
    "tokenise": "tokenising",
    "BM25": "BM25's index and search",
    "encode": "encoding without the model",
    "vectors": "vector search",
    "evaluate": "evaluation",
}
"""Stage that has to scale → what it does."""

SCRIPTS: dict[str, tuple[Bar, ...]] = {
    "bench_b1_bm25": (
        Bar("B1 bm25s", "queries/s, one shard", "bm25s with numba, one thread", at_least=0.9),
        Bar("B1 rank_bm25", "queries/s, one shard", "rank_bm25", at_least=100),
    ),
    "bench_b1_bm25_million": (
        Bar("B1M bm25s", "queries/s, one shard", "bm25s with numba, one thread", at_least=0.9),
        Bar("B1M two", "queries/s, two shards", "bm25s with numba, one thread", at_least=1.5),
    ),
    "bench_e0_padding": (
        Bar("E0 cpu", "tokens of texts in batches for a CPU", "tokens with padding", at_least=0.95),
        Bar("E0 cuda", "tokens of texts in batches for a GPU", "tokens with padding", at_least=0.95),
    ),
    "bench_e1_encode": (
        Bar("E1 float32", "documents/s in float32", "sentence-transformers in float32", at_least=1.0),
        Bar("E1 half", "documents/s in 16 bits", "sentence-transformers in float32", at_least=2.0),
        Bar("E1 bfloat16", "documents/s, `dtype: auto`", "sentence-transformers in bfloat16", at_least=1.0),
    ),
    "bench_e2_actors": (
        Bar("E2 Ray", "seconds of one actor", "the same calls without Ray", at_most=1.1),
        Bar("E2 actors", "documents/s, two actors", "one actor", at_least=1.7),
    ),
    "bench_e3_pooling": (
        Bar("E3", "documents/s, `engine: vllm` on a GPU", "sentence-transformers' engine", at_least=1.0),
    ),
    "bench_l1_encode": (
        Bar("L1 R2MED", "simulated end, 1 to 64 encoders", "lower bound", at_most=1.1),
        Bar("L1 abstracts", "simulated end, 1 to 64 encoders", "lower bound", at_most=1.1),
    ),
    "bench_l1_makespan": (
        Bar("L1 1 replica", "simulated steps", "lower bound", at_most=1.1),
        Bar("L1 2 replicas", "simulated steps", "lower bound", at_most=1.1),
        Bar("L1 4 replicas", "simulated steps", "lower bound", at_most=1.1),
    ),
    "bench_l2_overhead": (
        Bar("L2 ask", "a prompt's time beyond OpenAI's client", "1 ms", at_most=1.0),
        Bar("L2 keep", "a prompt's time with a store", "1 ms", at_most=1.0),
    ),
    "bench_l2_methods": (
        Bar("L2 rewriters", "a text's CPU time, the worst rewriter", "1 ms", at_most=1.0),
        Bar("L2 agents", "a text's CPU time, the worst agent", "1 ms", at_most=1.0),
        Bar("L2 rerankers", "a text's CPU time, the worst reranker", "1 ms", at_most=1.0),
        Bar("L2 negatives", "a text's CPU time, hard negatives", "1 ms", at_most=1.0),
    ),
    "bench_l3_served": (Bar("L3", "tokens/s over HTTP", "`LLM.chat` of vLLM", at_least=0.95),),
    "bench_m1_measures": (
        Bar("M1 pytrec_eval", "files/s", "pytrec_eval", at_least=3.0),
        Bar("M1 ranx", "files/s", "ranx", at_least=1.0),
        Bar("M1 memory", "peak memory", "pytrec_eval", at_most=0.3),
    ),
    "bench_serve": (Bar("P1", "first passages on the search page, 95 % within", "200 ms", at_most=1.0),),
    "bench_r1_rerank": (
        Bar("R1 float32", "pairs/s in float32", "`CrossEncoder.predict` per query", at_least=1.5),
        Bar("R1 half", "pairs/s in 16 bits", "`CrossEncoder.predict` per query", at_least=2.0),
    ),
    "bench_v1_exact_search": (
        Bar("V1 FAISS 876", "queries/s, 876 at once", "IndexFlatIP", at_least=2.0),
        Bar("V1 product 876", "queries/s, 876 at once", "the float32 product alone", at_least=0.5),
        Bar("V1 FAISS 103", "queries/s, 103 at once", "IndexFlatIP", at_least=2.0),
        Bar("V1 product 103", "queries/s, 103 at once", "the float32 product alone", at_least=0.5),
    ),
    "bench_v2_streamed_search": (
        Bar("V2 time", "seconds from disk", "IndexFlatIP in memory", at_most=1.3),
        Bar("V2 memory", "peak memory", "500 MB", at_most=1.0),
    ),
    "bench_v3_token_codes": (
        Bar("V3 found", "documents that one bit per component finds", "exhaustive MaxSim", at_least=0.99),
        Bar("V3 speed", "queries/s by codes", "exhaustive MaxSim", at_least=1.0),
        Bar("V3 memory", "peak memory", "20 bytes per token and 150 MB", at_most=1.0),
    ),
    "gpu": (
        Bar("GE1 BERT", "floating-point operations/s, 0.3 B", "the product of large matrices", at_least=0.45),
        Bar("GE1 decoder", "floating-point operations/s, 1.7 B", "the product of large matrices", at_least=0.45),
        Bar("GV1", "seconds of 876 queries, the best 1,000 of 24 M × 1024", "0.1 s", at_most=1.0),
        Bar("GR1", "pairs/s, 0.3 B", "700 pairs/s", at_least=1.0),
        Bar("GP1", "documents/s, two encoders on one GPU", "one encoder", at_least=1.0),
    ),
    "scale": (
        *(Bar(f"S1 {stage}", f"slope of {what}", "1: all cost the same", at_most=1.05) for stage, what in S1.items()),
        Bar("S1 driver", "driver's memory", "that at a tenth of the documents", at_most=1.15),
        Bar("S1 worker", "a worker's memory", "that at a tenth of the documents", at_most=1.15),
    ),
}
"""Script → its bars, in the order of the table."""

BARS = {bar.name: bar for bars in SCRIPTS.values() for bar in bars}
"""Name → bar."""
