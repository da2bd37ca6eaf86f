"""The benchmarks that need a large machine run small on any."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.bars import SCRIPTS

pytestmark = pytest.mark.ray


@pytest.mark.parametrize("script", ["gpu", "scale"])
def test_a_benchmark_that_needs_a_large_machine_runs_small_and_speaks_of_all_its_bars(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{script}", "--small"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )

    said = {line.split(": ")[0] for line in done.stdout.splitlines() if line.startswith(("SMALL ", "----  "))}
    assert {line.split(maxsplit=1)[1] for line in said} == {bar.name for bar in SCRIPTS[script]}
