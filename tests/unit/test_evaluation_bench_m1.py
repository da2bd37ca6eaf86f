"""The speed benchmark of evaluation still runs, and its check against trec_eval still holds."""

import subprocess
import sys
from pathlib import Path


def test_the_benchmark_runs_small():
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.bench_m1_measures", "--small"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )

    # 20 queries x 4 measures
    assert "80 values agree within 1e-09" in done.stdout
    assert "peak memory" in done.stdout
