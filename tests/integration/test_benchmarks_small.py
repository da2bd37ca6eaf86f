"""The benchmarks that need a large machine run small on any."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.bars import SCRIPTS

pytestmark = pytest.mark.ray


def lines_of(script: str) -> list[str]:
    """Run a benchmark small, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{script}", "--small"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("script", ["gpu", "scale"])
def test_a_benchmark_that_needs_a_large_machine_runs_small_and_speaks_of_all_its_bars(script: str) -> None:
    said = {line.split(": ")[0] for line in lines_of(script) if line.startswith(("SMALL ", "----  "))}
    assert {line.split(maxsplit=1)[1] for line in said} == {bar.name for bar in SCRIPTS[script]}


def test_approximate_indexes_are_compared_with_exact_search() -> None:
    found = [float(line.split(" finds ")[1].split()[0]) for line in lines_of("approximate")]
    # The 16 cells of `IVF16,Flat` hold all documents.
    assert found[2] == found[3] == 1.0
    assert sorted(found[:3]) == found[:3]
    assert len(found) == 19
