"""CI has a limit of time. Integration tests for which none is left are skipped, and the run says so."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("test", "left_s", "said"),
    [
        ("integration/test_benchmarks_small.py", -1, "[3] tests/conftest.py"),
        ("unit/test_models_networks_token_budget.py", -1, "7 passed"),
        ("unit/test_models_networks_token_budget.py", 60, "7 passed"),
    ],
)
def test_integration_tests_alone_are_skipped_when_the_time_is_up(test: str, left_s: float, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"tests/{test}"],
        env=os.environ | {"R2MED_INTEGRATION_ENDS": str(time.time() + left_s)},
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )

    assert done.returncode == 0
    assert said in done.stdout
    assert ("not run: the time for integration tests was up" in done.stdout) is test.startswith("integration")
