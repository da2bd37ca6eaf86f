"""Ray Serve gives up a proxy that is slow to start, as on a busy machine. A job waits for the next one."""

import subprocess
import sys

import pytest

from tests.integration.jobs import REPOSITORY, environment

pytestmark = [pytest.mark.ray, pytest.mark.serve]

PROGRAM = """
from ray import serve
from r2med_ray.distributed.session import connect
from r2med_ray.serving.serve_session import start_serve
with connect("local", num_cpus=2):
    start_serve(http=True)
    print([state.value for state in serve.status().proxies.values()])
"""


def test_a_job_goes_on_with_the_proxy_that_takes_the_place_of_a_slow_one() -> None:
    # No proxy starts in 0.3 s. Serve gives each next one 0.3 s more, so one is in time in the end.
    slow = environment(RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S="0.3")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=REPOSITORY, env=slow, capture_output=True, text=True, timeout=500
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['HEALTHY']"
