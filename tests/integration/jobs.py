"""Runs the shipped job as a user does: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[2]
JOB = REPOSITORY / "jobs" / "full_benchmark.py"


def environment(**changes: str) -> dict[str, str]:
    """The environment of the tests, with this Python first on the path."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **changes}


def run_job(
    *arguments: str | Path, cwd: Path, check: bool = True, timeout_s: float = 580, address: str = "local"
) -> subprocess.CompletedProcess[str]:
    """Run `python jobs/full_benchmark.py ...` in a folder, on a cluster of its own unless there is an address."""
    command = [sys.executable, JOB, *arguments, "--address", address]
    finished = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=timeout_s)
    if check and finished.returncode != 0:
        raise AssertionError(f"exit code {finished.returncode}\n{finished.stdout}\n{finished.stderr}")
    return finished


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
            {"name": "minilm", "retriever": "all-MiniLM-L6-v2"},
            {
                "name": "hybrid+maxsim",
                "retrievers": ["bm25", "all-MiniLM-L6-v2"],
                "fusion": {"method": "rrf"},
                "reranker": {"model": "maxsim-minilm", "depth": 10},
            },
        ],
        "resources": {"documents_per_shard": 20},
        **changes,
    }
    path.write_text(yaml.safe_dump(values))
    return path


def run_files(results: Path) -> dict[str, bytes]:
    """The run files of a results folder by their path in it."""
    return {str(path.relative_to(results)): path.read_bytes() for path in sorted(results.glob("runs/**/*.trec"))}
