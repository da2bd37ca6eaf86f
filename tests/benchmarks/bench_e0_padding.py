"""E0: the share of the tokens that go through an encoder that is text, not padding. No time is measured.

    python -m tests.benchmarks.bench_e0_padding [--small]

There are 10,000 documents. Their lengths are log-normal with the means of R2MED's eight corpora, and are cut at 512
tokens. Our batches are compared with random batches of 32, and with batches of 32 that are sorted by number of
characters, as sentence-transformers and BEIR do it.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from r2med_ray.models.catalog.devices import batch_limits
from r2med_ray.models.networks.token_budget import plan_batches
from tests.benchmarks.findings import Findings, Measured

MEAN_LENGTHS = (83.6, 150.5, 122.7, 154.9, 179.7, 149.3, 480.4, 1273.0)
"""Mean number of tokens of a document, for Biology ... IIYi-Clinical, from R2MED's README."""

SPREAD = 0.7
"""Standard deviation of the logarithm of a length."""

CHARACTERS_PER_TOKEN = (4.5, 0.6)
"""Mean and standard deviation over documents. They say how well the characters of a text predict its tokens."""

TOKEN_BUDGET = 16_384


def r2med_lengths(count: int, *, means: Sequence[float] = MEAN_LENGTHS, longest: int = 512) -> list[int]:
    """Draw token counts in random order, the same number around each mean. The result is the same every time."""
    random = np.random.default_rng(7)
    of_means = np.resize(means, count)
    drawn = random.lognormal(np.log(of_means) - SPREAD**2 / 2, SPREAD)
    return [int(length) for length in random.permutation(drawn).clip(1, longest)]


def efficiency(batches: Sequence[Sequence[int]], lengths: Sequence[int]) -> float:
    padded = sum(len(batch) * max(lengths[position] for position in batch) for batch in batches)
    return sum(lengths) / padded


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="200 documents, and no bar")
    small = parser.parse_args().small
    lengths = r2med_lengths(200 if small else 10_000)
    characters = lengths * np.random.default_rng(8).normal(*CHARACTERS_PER_TOKEN, len(lengths))
    orders = {
        "random batches of 32": np.arange(len(lengths)),
        "sorted by characters, batches of 32": np.argsort(-characters),
    }
    shares = {
        name: [order[start : start + 32] for start in range(0, len(order), 32)] for name, order in orders.items()
    }
    for device in ("cpu", "cuda"):
        shares[f"ours, {device}"] = plan_batches(lengths, batch_limits(device, TOKEN_BUDGET))
    for name, batches in shares.items():
        print(f"{name:<36} {efficiency(batches, lengths):.3f} real tokens, {len(batches)} forward passes")
    findings = Findings(__file__, small=small)
    for device in ("cpu", "cuda"):
        findings.add(f"E0 {device}", Measured.once(efficiency(shares[f"ours, {device}"], lengths)))
    findings.close()


if __name__ == "__main__":
    main()
