"""E1: MiniLM over documents as long as R2MED's.

    python -m tests.benchmarks.bench_e1_encode [--small] [--device cuda] [--threads N]

    A  sentence-transformers, float32, batches of 32        B  the same in bfloat16
    D  r2med_ray in the type `auto` of the device           F  r2med_ray in the other type of `dtype: fastest`

First every vector must be as close to A's as its type allows. Then all take turns in one process, with the same
number of threads. There are 400 documents. `--small` has 24 documents and no bar. On a CPU, `auto` is float32, where
both sides do nearly the same arithmetic. There B and F encode a tenth of the documents, and the bar of bfloat16 holds
for F if `dtype: fastest` would choose it.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from r2med_ray.models.catalog.devices import Dtype, best_dtype, set_threads
from r2med_ray.models.catalog.fastest import LEAST_GAIN, MEASURED_DTYPES
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.encoders import build_encoder
from tests.benchmarks.bench_e0_padding import r2med_lengths
from tests.benchmarks.findings import Findings
from tests.benchmarks.rounds import Work, print_seconds, seconds_per_round, times_as_fast

ROW = load_catalog().encoders["all-MiniLM-L6-v2"]
CLOSENESS = {"float32": 0.9999, "bfloat16": 0.999, "float16": 0.999}
ROUNDS = 6


def texts_of(lengths: Sequence[int], seed: int = 9) -> list[str]:
    """Return texts of whole words of MiniLM's vocabulary. A text of n words has n tokens and two special tokens."""
    vocabulary = (locate(ROW.model, None) / "vocab.txt").read_text(encoding="utf-8").splitlines()
    words = [word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 2]
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(words, length)) for length in lengths]


def main() -> None:
    from sentence_transformers import SentenceTransformer

    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        set_threads(arguments.threads)
    device, dtype = arguments.device, best_dtype(arguments.device)
    texts = texts_of(r2med_lengths(24 if arguments.small else 400))
    sample = texts if dtype != "float32" else texts[::10]

    def theirs(dtype: str) -> SentenceTransformer:
        return SentenceTransformer(str(locate(ROW.model, None)), device=device, model_kwargs={"dtype": dtype})

    plain, half = theirs("float32"), theirs("bfloat16")
    other: Dtype = next(each for each in MEASURED_DTYPES if each != dtype)
    ours, in_other = (build_encoder(ROW, task="Biology", device=device, dtype=each) for each in (dtype, other))
    contestants: dict[str, Work] = {
        "A": lambda: plain.encode(texts, batch_size=32),
        "B": lambda: half.encode(sample, batch_size=32),
        "D": lambda: ours.encode_plain(texts),
        "F": lambda: in_other.encode_plain(sample),
    }
    items = {"A": len(texts), "B": len(sample), "D": len(texts), "F": len(sample)}
    expected = plain.encode(texts, batch_size=32)
    findings = Findings(__file__, small=arguments.small, device=device)
    require_closeness(findings, ours.encode_plain(texts), expected, dtype)
    require_closeness(findings, in_other.encode_plain(texts), expected, other)
    seconds = seconds_per_round(contestants, 1 if arguments.small else ROUNDS)
    print_seconds(seconds, items, "documents")
    findings.add("E1 bfloat16", times_as_fast(seconds, items, "D", "B"))
    in_float32, in_half = ("D", "F") if dtype == "float32" else ("F", "D")
    gain = times_as_fast(seconds, items, in_half, in_float32).ratio
    if dtype == "float32":
        findings.add("E1 float32", times_as_fast(seconds, items, in_float32, "A"))
    else:
        findings.leave_out("E1 float32", f"`auto` is {dtype} on {device}")
    if dtype != "float32" or gain >= LEAST_GAIN:
        findings.add("E1 half", times_as_fast(seconds, items, in_half, "A"))
    else:
        findings.leave_out("E1 half", f"bfloat16 is {gain:.2f} times as fast here, so `fastest` is float32")
    findings.close()


def require_closeness(findings: Findings, ours: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    closest = float((ours * expected).sum(axis=1).min())
    claim = f"the least cosine in {dtype} with sentence-transformers in float32 is {closest:.6f}"
    findings.gate(claim, holds=closest >= CLOSENESS[dtype])


if __name__ == "__main__":
    main()
