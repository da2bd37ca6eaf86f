"""S1: what a document costs in each stage, and the memory of each process, as a corpus grows tenfold and tenfold.

    python -m tests.benchmarks.scale [--small] [--to DOCUMENTS] [--folder FOLDER]

Corpora of 10,000, 100,000 and 1,000,000 documents (`--to` sets the last) have words as frequent as Zipf's law says,
and R2MED's lengths. The encoder takes no time, so what is measured is all that is around it. Costs are those of one
process, which starts nothing. Then the same stages run on a cluster of their own on this machine, whose processes are
watched. Indexes are read shard by shard (`held_shards: none`). There are 100 queries, and the run file that is
evaluated has as many lines as the corpus has documents.

The slope of a stage is that of its seconds in logarithms: 1 if each document costs the same, 1.05 if it costs 12 %
more in a corpus ten times as large. Of three rounds, the fastest counts; from a million documents on there is one.
Memory is looked at five times a second, without the pages of Ray's object store, which all processes share.
`--small` has 1,000 and 10,000 documents, one round and no bar. The script needs Linux, whose /proc has the memory.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.benchmarks.bars import S1
from tests.benchmarks.findings import REPOSITORY, Findings, Measured

EVERY_S = 0.2
LARGE = 1_000_000
ROUNDS = 3
PROCESSES = {"cluster": "S1 driver", "worker": "S1 worker"}
"""Process whose memory must not grow → its bar."""


class Cost(NamedTuple):
    """What one size took."""

    seconds: dict[str, float]
    peak_mb: dict[str, float]
    """Process → the most memory that one such process had."""


def watched(work: str, folder: Path, documents: int) -> Cost:
    """Run one work in a process of its own, and watch the memory of it and of the workers of its cluster."""
    command = [sys.executable, "-m", "tests.benchmarks.scale_job", work, str(folder), str(documents)]
    peak_mb: dict[str, float] = {}
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, work, peak_mb, ended))
        watcher.start()
        said, _ = process.communicate()
        ended.set()
        watcher.join()
    if process.returncode:
        sys.exit(f"{work} of {documents} documents has exit code {process.returncode}")
    return Cost(json.loads(said.splitlines()[-1]), peak_mb)


def _watch(pid: int, work: str, peak_mb: dict[str, float], ended: threading.Event) -> None:
    """Note the peaks of a process, by its work, and of Ray's workers below it, until `ended` is set."""
    while not ended.wait(EVERY_S):
        try:
            processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            kind = work if process.pid == pid else "worker"
            try:
                if kind == work or process.cmdline()[0].startswith("ray::"):
                    peak_mb[kind] = max(peak_mb.get(kind, 0.0), unshared_mb(process))
            except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError, IndexError):
                continue  # it has ended


def unshared_mb(process: psutil.Process) -> float:
    """Return a process's memory in MiB, without pages that it shares with others, or with a file.

    A worker of Ray has mapped every page of the object store that it ever read. That grows with the work although the
    worker keeps nothing.
    """
    memory = process.memory_info()
    return float(memory.rss - memory.shared) / 2**20


def measure(sizes: list[int], rounds: dict[int, int], folder: Path) -> dict[int, Cost]:
    """Run all sizes in turn, Ray only in the first. Return the least seconds and the largest peaks of each size."""
    costs: dict[int, Cost] = {size: Cost({}, {}) for size in sizes}
    for turn in range(max(rounds.values())):
        for size in (size for size in sizes if turn < rounds[size]):
            seconds, peak_mb = costs[size]
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                for work in ("write", "stages", "evaluate", *(["cluster"] if not turn else [])):
                    cost = watched(work, Path(scratch), size)
                    for stage, value in cost.seconds.items():
                        seconds[stage] = min(seconds.get(stage, math.inf), value)
                    for process, peak in cost.peak_mb.items():
                        peak_mb[process] = max(peak_mb.get(process, 0.0), peak)
    return costs


def slopes(values: Mapping[int, float]) -> list[float]:
    """Return the slope of size → seconds in logarithms, for each step from one size to the next."""
    steps = pairwise(values.items())
    return [math.log(more / less) / math.log(larger / smaller) for (smaller, less), (larger, more) in steps]


def growths(values: Mapping[int, float]) -> list[float]:
    return [values[larger] / values[smaller] for smaller, larger in pairwise(values)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--to", type=int, default=LARGE, metavar="DOCUMENTS")
    parser.add_argument("--folder", type=Path, help="for corpora and stores, about 10 kB a document")
    given = parser.parse_args()
    first, last = (1_000, 10_000) if given.small else (10_000, given.to)
    findings = Findings(__file__, small=given.small, size=f"{first:,} to {last:,} documents")
    sizes = [first * 10**step for step in range(round(math.log10(last / first)) + 1)]
    rounds = {size: 1 if given.small or size >= LARGE else ROUNDS for size in sizes}
    costs = measure(sizes, rounds, given.folder or Path(tempfile.gettempdir()))
    print(f"documents: {', '.join(f'{size:,}' for size in sizes)}; on Ray, the start of processes is in the seconds")
    for stage in next(iter(costs.values())).seconds:
        seconds = {size: cost.seconds[stage] for size, cost in costs.items()}
        print(f"{stage:16} {shown(1000 * value / size for size, value in seconds.items())} ms a document")
        if stage in S1:
            findings.add(f"S1 {stage}", largest(slopes(seconds)))
    for process in next(iter(costs.values())).peak_mb:
        peaks = {size: cost.peak_mb[process] for size, cost in costs.items()}
        print(f"{process:16} {shown(peaks.values())} MiB at its peak")
        if process in PROCESSES:
            findings.add(PROCESSES[process], largest(growths(peaks)))
    findings.close()


def shown(values: Iterable[float]) -> str:
    return " ".join(f"{value:12.4g}" for value in values)


def largest(values: list[float]) -> Measured:
    return Measured(max(values), min(values), max(values))


if __name__ == "__main__":
    main()
