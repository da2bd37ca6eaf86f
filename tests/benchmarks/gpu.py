"""GE1, GV1, GR1, GP1: encoding, search and reranking on one GPU, as shares of what the device can do.

    python -m tests.benchmarks.gpu [--small]        (under five minutes on a GPU)

    GE1  encoders in bfloat16 over 10,000 documents as long as R2MED's: floating-point operations a second, 2 for each
         weight and token, as a share of what the device does in a product of two large matrices in the same round
    GV1  876 queries, the best 1,000 of 24 M × 1024 float16 vectors, or of as many as the memory holds; by FAISS if it
         is built for GPUs (`DenseIndex`, in float32), or else by torch's own selection (`gpu_search`)
    GR1  a cross-encoder over pairs as long as R2MED's
    GP1  two encoders of MiniLM's shape on half a GPU each, on Ray, beside one that has it alone

Networks have random weights, and MiniLM's tokenizer. First vectors and scores must be close to float32, and the
search must have the documents of a product in float32. Without a GPU, nothing is measured. `--small` has tiny
networks and few vectors, and runs on any device, with no bar.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
import transformers

from r2med_ray.distributed.preparing import prepare
from r2med_ray.first_stage import Computing
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.models.catalog.devices import best_device, device_name
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.cross_encoders import CrossEncoderScorer
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import Pool
from r2med_ray.storage.artifacts import ArtifactStore
from tests.benchmarks.bars import SCRIPTS
from tests.benchmarks.bench_e0_padding import r2med_lengths
from tests.benchmarks.bench_e1_encode import ROW, texts_of
from tests.benchmarks.bench_e2_actors import task_in
from tests.benchmarks.bench_r1_rerank import QUERY_LENGTHS, rank_correlation
from tests.benchmarks.findings import Findings, Measured
from tests.benchmarks.gpu_bench import LARGE, LONGEST, SMALL, Bench
from tests.benchmarks.gpu_search import search
from tests.benchmarks.rounds import print_seconds, seconds_per_round, times_as_fast

WORDS = 80
PAIRS_PER_S = 700
CLOSENESS = 0.999


def encode(bench: Bench, name: str, model_class: Any, config: Any, documents: int) -> None:
    folder = bench.save(name, model_class, config)
    row = EncoderRow(name=name, model=folder, pooling="mean", max_length=LONGEST)
    lengths = r2med_lengths(documents, longest=LONGEST - 2)
    texts = texts_of(lengths)
    tokens = sum(lengths) + 2 * len(lengths)
    ours, plain = (
        build_encoder(row, task="gpu", device=bench.device, dtype=dtype) for dtype in ("bfloat16", "float32")
    )
    few = texts[:16]
    closest = float((ours.encode_plain(few) * plain.encode_plain(few)).sum(axis=1).min())
    bench.findings.gate(f"{name}: the least cosine with float32 is {closest:.5f}", holds=closest >= CLOSENESS)
    del plain
    weights = weights_of(model_class, config)
    what = f"{name}: {weights / 1e9:.2f} B weights without embeddings, {len(texts)} documents, {tokens} tokens"
    _, share = bench.timed(what, lambda: ours.encode_plain(texts), tokens, "tokens", 2 * weights * tokens)
    bench.findings.add(f"GE1 {name}", share)


def weights_of(model_class: Any, config: Any) -> int:
    """Return how many weights each token is multiplied with: all but those of the embeddings."""
    with torch.device("meta"):
        network = model_class(config)
    embedded = (each.weight.numel() for each in network.modules() if isinstance(each, torch.nn.Embedding))
    return sum(each.numel() for each in network.parameters()) - sum(embedded)


def rerank(bench: Bench) -> None:
    config = transformers.BertConfig(**bench.sizes.bert, num_labels=1, initializer_range=0.05)
    folder = bench.save("reranker", transformers.BertForSequenceClassification, config)
    row = RerankerRow(name="reranker", kind="cross-encoder", model=folder, max_length=LONGEST)
    queries = texts_of(r2med_lengths(40 if bench.sizes is LARGE else 2, means=QUERY_LENGTHS), seed=10)
    documents = texts_of(r2med_lengths(len(queries) * bench.sizes.pairs_of_query), seed=11)
    pairs = [(queries[place % len(queries)], document) for place, document in enumerate(documents)]
    ours = CrossEncoderScorer(row, device=bench.device)
    plain = CrossEncoderScorer(row.model_copy(update={"dtype": "float32"}), device=bench.device)
    alone = np.array([plain.score_pairs([pair])[0] for pair in pairs[:40]])
    correlation = rank_correlation(np.array(ours.score_pairs(pairs[:40])), alone)
    bench.findings.gate(f"rerank: the rank correlation with float32 is {correlation:.5f}", holds=correlation >= 0.999)
    del plain
    tokens = sum(min(len(f"{query} {document}".split()) + 3, LONGEST) for query, document in pairs)
    what = f"reranker: {len(pairs)} pairs, {tokens} tokens"
    operations = 2 * weights_of(transformers.BertForSequenceClassification, config) * tokens
    seconds, _ = bench.timed(what, lambda: ours.score_pairs(pairs), len(pairs), "pairs", operations)
    rates = [len(pairs) / PAIRS_PER_S / each for each in seconds]
    bench.findings.add("GR1", Measured(max(rates), min(rates), max(rates)))


def two_on_one(bench: Bench) -> None:
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR")
    first_stage, gpus = DenseFirstStage(row=ROW, rules=Rules()), float(bench.device == "cuda")
    texts = texts_of([WORDS] * bench.sizes.actors_documents)
    stores = {name: ArtifactStore(str(bench.folder / name)) for name in "AD"}
    tasks = {name: task_in(store, texts) for name, store in stores.items()}

    def encode_by(name: str, actors: int) -> None:
        [shard] = tasks[name].corpus.shards
        stores[name].remove(first_stage.shard_key("e2", tasks[name].corpus, shard, bench.device).name)
        pool, computing = Pool(actors=actors, cpus=1, gpus=gpus / actors), Computing(device=bench.device, threads=1)
        prepare(stores[name], [(tasks[name], first_stage)], [], computing, pool, no_progress_timeout_s=600)

    works = {"A": lambda: encode_by("A", 1), "D": lambda: encode_by("D", 2)}
    seconds = seconds_per_round(works, bench.sizes.rounds)
    ray.shutdown()
    items = dict.fromkeys(works, len(texts))
    print_seconds(seconds, items, "documents")
    bench.findings.add("GP1", times_as_fast(seconds, items, "D", "A"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    device, sizes = best_device(), SMALL if small else LARGE
    findings = Findings(__file__, small=small, device=device)
    if not small and device != "cuda":
        for bar in SCRIPTS["gpu"]:
            findings.leave_out(bar.name, "no GPU is here")
        return
    began = time.perf_counter()
    print(device_name(device))
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        bench = Bench(findings, sizes, device, Path(folder))
        vocabulary = {"vocab_size": len(transformers.AutoTokenizer.from_pretrained(locate(ROW.model, None)))}
        bert = transformers.BertConfig(**sizes.bert, **vocabulary)
        encode(bench, "BERT", transformers.BertModel, bert, sizes.documents)
        decoder = transformers.Qwen3Config(**sizes.decoder, **vocabulary)
        encode(bench, "decoder", transformers.Qwen3Model, decoder, sizes.documents // 4)
        for measure in (rerank, two_on_one, search):
            measure(bench)
    print(f"{time.perf_counter() - began:.0f} s in all")
    findings.close()


if __name__ == "__main__":
    main()
