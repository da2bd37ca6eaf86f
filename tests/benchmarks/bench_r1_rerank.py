"""R1: a cross-encoder of MiniLM's shape with random weights, 20 queries x 20 documents as long as R2MED's.

    python -m tests.benchmarks.bench_r1_rerank [--small] [--device cuda] [--threads N]

    A  CrossEncoder.predict for each query, as scripts do it        B  one call for all pairs
    D  r2med_ray, in the type that it chooses for the device

First the scores must rank the documents as float32 scores of one pair at a time do. Then all take turns in one
process, with the same number of threads. `--small` has 2 queries x 4 documents and no bar. Without half precision, D
can only save by leaving out padding, which is 0.35 of A's tokens.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from r2med_ray.models.catalog.devices import set_threads
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.cross_encoders import CrossEncoderScorer
from tests.benchmarks.bench_e0_padding import r2med_lengths
from tests.benchmarks.bench_e1_encode import ROW, texts_of
from tests.benchmarks.findings import Findings
from tests.benchmarks.rounds import print_seconds, seconds_per_round, times_as_fast

QUERY_LENGTHS = (115.2, 273.8, 107.1, 233.2, 167.8, 449.3, 182.8, 602.3)
"""Mean number of tokens of a query, for R2MED's eight tasks, from R2MED's README."""

LONGEST = 512
CHECKED_PAIRS = 40
ROUNDS = 3


def save_checkpoint(folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoTokenizer, BertForSequenceClassification

    minilm = locate(ROW.model, None)
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(minilm, num_labels=1, initializer_range=0.1)  # wide, so that scores differ
    BertForSequenceClassification(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(minilm, model_max_length=LONGEST).save_pretrained(folder)


def make_pairs(num_queries: int, depth: int) -> list[list[tuple[str, str]]]:
    queries = texts_of(r2med_lengths(num_queries, means=QUERY_LENGTHS), seed=10)
    documents = texts_of(r2med_lengths(num_queries * depth), seed=11)
    return [
        [(query, document) for document in documents[row * depth : (row + 1) * depth]]
        for row, query in enumerate(queries)
    ]


def rank_correlation(left: np.ndarray, right: np.ndarray) -> float:
    """Spearman's rank correlation, without ties."""
    ranks = [np.argsort(np.argsort(values)) for values in (left, right)]
    return float(np.corrcoef(*ranks)[0, 1])


def main() -> None:
    import torch
    from sentence_transformers import CrossEncoder

    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        set_threads(arguments.threads)
    device = arguments.device
    of_queries = make_pairs(*((2, 4) if arguments.small else (20, 20)))
    pairs = [pair for of_query in of_queries for pair in of_query]
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(Path(folder))
        theirs = CrossEncoder(folder, device=device, max_length=LONGEST, activation_fn=torch.nn.Identity())
        row = RerankerRow(name="bench", kind="cross-encoder", model=folder, max_length=LONGEST)
        dtype = row.resolved_dtype(device)
        ours = CrossEncoderScorer(row, device=device)
        checked = pairs[:CHECKED_PAIRS]
        alone = np.array([theirs.predict([pair])[0] for pair in checked])
        correlation = rank_correlation(np.array(ours.score_pairs(checked)), alone)
        findings = Findings(__file__, small=arguments.small, device=device)
        claim = f"the rank correlation of {dtype} with one pair at a time is {correlation:.6f}"
        findings.gate(claim, holds=correlation >= 0.999)
        seconds = seconds_per_round(
            {
                "A": lambda: [theirs.predict(of_query) for of_query in of_queries],
                "B": lambda: theirs.predict(pairs),
                "D": lambda: ours.score_pairs(pairs),
            },
            1 if arguments.small else ROUNDS,
        )
    items = dict.fromkeys(seconds, len(pairs))
    print_seconds(seconds, items, "pairs")
    times_as_fast(seconds, items, "D", "B")
    here, elsewhere = ("R1 float32", "R1 half") if dtype == "float32" else ("R1 half", "R1 float32")
    findings.add(here, times_as_fast(seconds, items, "D", "A"))
    findings.leave_out(elsewhere, f"rerankers are in {dtype} on {device}")
    findings.close()


if __name__ == "__main__":
    main()
