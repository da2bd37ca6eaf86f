"""Runs contestants in turn in one process, and shows their times."""

import itertools
import statistics
import time
from collections.abc import Callable
from typing import TypeAlias

from tests.benchmarks.findings import Measured

Work: TypeAlias = Callable[[], object]


def seconds_per_round(contestants: dict[str, Work], rounds: int) -> dict[str, list[float]]:
    """Run each contestant once to warm up, then all in turn."""
    for work in contestants.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            start = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def print_seconds(seconds: dict[str, list[float]], items: dict[str, int], what: str) -> None:
    for name, values in seconds.items():
        rate = items[name] / min(values)
        print(
            f"{name:<4} {rate:8.1f} {what}/s at best; seconds: min {min(values):.3f}, "
            f"median {statistics.median(values):.3f}, max {max(values):.3f}"
        )


def times_as_fast(seconds: dict[str, list[float]], items: dict[str, int], ours: str, theirs: str) -> Measured:
    """Print and return how many times as fast we are, by the minimum over the rounds.

    The spread is that of the single rounds. A contestant that ran once is compared with each round of the other.
    """

    def ratio(our_seconds: float, their_seconds: float) -> float:
        return (items[ours] / our_seconds) / (items[theirs] / their_seconds)

    by = {choose: ratio(choose(seconds[ours]), choose(seconds[theirs])) for choose in (min, statistics.median)}
    print(f"{ours}/{theirs}  {by[min]:.2f} times as fast by the minimum, {by[statistics.median]:.2f} by the median")
    rounds = max(len(seconds[ours]), len(seconds[theirs]))
    every = list(map(ratio, *(itertools.islice(itertools.cycle(seconds[name]), rounds) for name in (ours, theirs))))
    return Measured(by[min], min(every), max(every))
