"""`ray job submit` runs the job on a cluster that `ray start --head` made."""

import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jobs import REPOSITORY, environment, run_files, write_config
from tests.integration.nodes import RAY, free_ports, nodes_in

pytestmark = [pytest.mark.ray, pytest.mark.serve]


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A head node, with a token of its own. The fixture is the environment that reaches the node."""
    logs = tmp_path_factory.mktemp("head")
    [dashboard] = free_ports(1)
    reach = environment(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    with nodes_in(logs, env=reach) as nodes:
        nodes.start_head(cpus=2, dashboard=dashboard)
        reach["RAY_API_SERVER_ADDRESS"] = f"http://127.0.0.1:{dashboard}"
        for _ in range(60):
            accepted = subprocess.run(
                [RAY, "job", "submit", "--", "true"], env=reach, capture_output=True, timeout=90
            )
            if accepted.returncode == 0:  # the node's agent is ready later than the server that takes jobs
                break
            time.sleep(1)
        else:
            [log] = logs.iterdir()
            pytest.fail(f"the head node did not start:\n{log.read_text()}")
        yield reach


READS_THE_REQUEST = """
import ray
from ray._private.ray_constants import AUTOSCALER_RESOURCE_REQUEST_CHANNEL
from ray.experimental.internal_kv import _internal_kv_get

ray.init()
print("asked for:", _internal_kv_get(AUTOSCALER_RESOURCE_REQUEST_CHANNEL).decode())
"""
"""What is asked for is kept as JSON in the cluster, where an autoscaler reads it."""


# It is the first test of the cluster, as the page says: once a job has used Ray Data, an actor of Ray Data sends a
# request of its own every 20 seconds.
def test_the_page_for_clusters_asks_for_nodes_and_gives_them_back(head: dict[str, str], tmp_path: Path) -> None:
    page = (REPOSITORY / "cluster" / "README.md").read_text(encoding="utf-8")
    commands = [line for line in page.splitlines() if line.startswith("ray job") and "request_resources" in line]
    reader = tmp_path / "reader.py"
    reader.write_text(READS_THE_REQUEST, encoding="utf-8")
    reach = {**head, "PATH": f"{RAY.parent}{os.pathsep}{os.environ['PATH']}"}

    kept = []
    for command in commands:
        both = f"{command} && ray job submit -- python {reader}"
        asked = subprocess.run(["bash", "-c", both], env=reach, capture_output=True, text=True, timeout=200)
        assert asked.returncode == 0, asked.stdout + asked.stderr
        [line] = [line for line in asked.stdout.splitlines() if line.startswith("asked for: ")]
        kept.append(json.loads(line.removeprefix("asked for: ")))

    assert kept == [[{"CPU": 8, "GPU": 1}] * 4 + [{"CPU": 16}], []]  # four GPU nodes and one of CPUs, then none


def test_the_same_job_runs_when_it_is_submitted_to_a_cluster(head: dict[str, str], tmp_path: Path) -> None:
    config = write_config(tmp_path / "small.yaml")
    submitted = subprocess.run(
        [
            RAY, "job", "submit", "--working-dir", REPOSITORY, "--", "python", "jobs/full_benchmark.py", config,
            "--store", tmp_path / "store", "--output", tmp_path / "out",
        ],
        env=head, capture_output=True, text=True, timeout=500,
    )  # fmt: skip

    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    assert f"report: {tmp_path / 'out' / 'index.html'}" in submitted.stdout
    assert len(run_files(tmp_path / "out")) == 4
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["name"] == "small"


@pytest.mark.parametrize("option", ["--output", "--store"])
def test_a_folder_that_ray_deletes_with_the_job_is_refused(head: dict[str, str], tmp_path: Path, option: str) -> None:
    config = write_config(tmp_path / "small.yaml")
    submitted = subprocess.run(
        [
            RAY, "job", "submit", "--working-dir", REPOSITORY, "--", "python", "jobs/full_benchmark.py", config,
            option, "kept/here",
        ],
        env=head, capture_output=True, text=True, timeout=300,
    )  # fmt: skip

    assert submitted.returncode != 0
    assert f"error: {option[2:]} 'kept/here' is in the working folder of a submitted job, which Ray deletes" in (
        submitted.stdout + submitted.stderr
    )
