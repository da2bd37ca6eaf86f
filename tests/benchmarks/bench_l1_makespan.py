"""L1: how long a simulated engine takes for R2MED's 876 prompts, for two ways to hand them over.

    python -m tests.benchmarks.bench_l1_makespan

    chunks  32 prompts at a time, and the next 32 when all are answered, as R2MED's script does it
    ours    all prompts in one stream; each place that becomes free takes the next prompt

The result is deterministic. An engine has 256 places and writes one token per place and step. Lengths are log-normal
(sigma 0.8, mean about 900, cut at 10,240 tokens), from a fixed seed. The lower bound is the larger of two numbers:
all tokens divided by all places, and the longest answer. Nobody knows the lengths beforehand, so a long answer may
begin last. That costs nothing if there are places for nearly all prompts, but it costs steps if there are few places.
The bar is for four replicas.
"""

import heapq
import sys

import numpy as np

PROMPTS = 876
PLACES = 256
CHUNK = 32
BAR = 1.10
BARRED_REPLICAS = 4


def lengths() -> list[float]:
    drawn = np.random.default_rng(9).lognormal(mean=6.5, sigma=0.8, size=PROMPTS)
    return np.minimum(drawn, 10_240).tolist()


def streamed(tokens: list[float], places: int) -> float:
    """Return the number of steps until all answers are done, if each prompt takes the place that is free first."""
    free_at = [0.0] * places
    for length in tokens:
        heapq.heapreplace(free_at, free_at[0] + length)
    return max(free_at)


def chunked(tokens: list[float], replicas: int) -> float:
    """Return the number of steps if every replica waits for the longest answer of its chunk."""
    size = CHUNK * replicas
    return sum(max(tokens[start : start + size]) for start in range(0, len(tokens), size))


def main() -> None:
    tokens = lengths()
    missed = False
    for replicas in (1, 2, 4):
        bound = max(sum(tokens) / (PLACES * replicas), max(tokens))
        ours = streamed(tokens, PLACES * replicas)
        ratio = ours / bound
        print(
            f"{replicas} replica(s): {ratio:.3f} times the lower bound; chunks of {CHUNK} take "
            f"{chunked(tokens, replicas) / ours:.1f} times as long"
        )
        missed |= replicas == BARRED_REPLICAS and ratio > BAR
    if missed:
        sys.exit(f"missed: {BARRED_REPLICAS} replicas may take {BAR} times the lower bound")


if __name__ == "__main__":
    main()
