"""Runs the shipped job as a user does, in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[2]
JOB = REPOSITORY / "jobs" / "full_benchmark.py"

SHORT = {"model": "all-MiniLM-L6-v2", "max_length": 32}
"""A dense retriever that reads the first 32 tokens of a text, for tests in which encoding is not what is tested."""


def environment(**changes: str) -> dict[str, str]:
    """The environment of the tests, with this Python first on the path."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **changes}


def run_job(
    *arguments: str | Path, cwd: Path, check: bool = True, timeout_s: float = 580, address: str = "local"
) -> subprocess.CompletedProcess[str]:
    """Run `python jobs/full_benchmark.py ...` in a folder. Without an address, the job has a cluster of its own."""
    command = [sys.executable, JOB, *arguments, "--address", address]
    finished = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=timeout_s)
    if check and finished.returncode != 0:
        raise AssertionError(f"exit code {finished.returncode}\n{finished.stdout}\n{finished.stderr}")
    return finished


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running job, and the file that it logs to."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, what: str, there: Callable[[], bool], *, limit_s: float = 200) -> None:
        """Wait until the job has brought about an effect.

        Args:
            what: the name of the effect, for errors.
            there: returns whether the effect is there.
            limit_s: seconds that the job may take.

        Raises:
            AssertionError: the job ended before the effect was there, or took longer.
        """
        deadline = time.monotonic() + limit_s
        while not there():
            if self.process.poll() is not None:
                problem = f"the job ended with {self.process.returncode} before there was {what}"
                raise AssertionError(f"{problem}\n{self.log.read_text()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {limit_s:.0f} s\n{self.log.read_text()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End the driver as a crash would, and wait until it is gone."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(command: Sequence[str | Path], *, cwd: Path, log: Path) -> Iterator[RunningJob]:
    """Run a program during a `with` block. At the end of the block it is killed."""
    with log.open("w") as stream:
        process = subprocess.Popen(command, cwd=cwd, env=environment(), stdout=stream, stderr=stream)
    job = RunningJob(process, log)
    try:
        yield job
    finally:
        job.kill()


def running_job(
    *arguments: str | Path, cwd: Path, address: str = "local", log_name: str = "job.log"
) -> AbstractContextManager[RunningJob]:
    """Run the job during a `with` block, by default on a cluster of its own. At the end of the block it is killed."""
    return running([sys.executable, JOB, *arguments, "--address", address], cwd=cwd, log=cwd / log_name)


def write_config(path: Path, **changes: object) -> Path:
    """Write a small benchmark over one demo task."""
    values: dict[str, object] = {
        "name": "small",
        "tasks": ["Demo-Posts"],
        "baseline": "bm25",
        "systems": [
            {"name": "bm25", "retriever": "bm25"},
            {
                "name": "bm25+hyde",
                "retriever": "bm25",
                "rewriter": {"method": "hyde", "generations": "demo-writer"},
            },
            {"name": "minilm", "retriever": SHORT},
            {
                "name": "hybrid+maxsim",
                "retrievers": ["bm25", SHORT],
                "fusion": {"method": "rrf"},
                "reranker": {"model": "maxsim-minilm", "depth": 3},
            },
        ],
        "resources": {"documents_per_shard": 20},
        **changes,
    }
    path.write_text(yaml.safe_dump(values))
    return path


def run_files(results: Path) -> dict[str, bytes]:
    """Path in a results folder → content, for each run file of the folder."""
    return {str(path.relative_to(results)): path.read_bytes() for path in sorted(results.glob("runs/**/*.trec"))}
