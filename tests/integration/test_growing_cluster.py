"""A job on a cluster that grows: it waits for nodes aloud, uses them, and gives the results of one machine."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ray._private.ray_constants import AUTOSCALER_RESOURCE_REQUEST_CHANNEL
from ray.autoscaler.sdk import request_resources
from ray.experimental.internal_kv import _internal_kv_get

from r2med_ray.distributed.growing import wait_for_nodes
from r2med_ray.errors import StoppedError
from r2med_ray.settings.pools import ClusterCapacity, Pool
from tests.integration.jobs import JOB, RunningJob, environment, run_files, run_job, write_config
from tests.integration.test_job_submission import RAY, free_ports

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

SYSTEMS = [{"name": "bm25", "retriever": "bm25"}]
ONE_NODE = {"nodes": [{"cpus": 2, "max": 1}], "wait_s": 300}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., None]]:
    """Starts a node with some arguments of `ray start`; all nodes end with the tests."""
    nodes: list[subprocess.Popen[bytes]] = []
    folder = tmp_path_factory.mktemp("nodes")

    def start_node(*arguments: str) -> None:
        agent, metrics = free_ports(2)
        command = [
            RAY, "start", "--block", "--node-ip-address=127.0.0.1", f"--dashboard-agent-listen-port={agent}",
            f"--metrics-export-port={metrics}", *arguments,
        ]  # fmt: skip
        with (folder / f"{len(nodes)}.log").open("w") as log:
            nodes.append(subprocess.Popen(command, env=environment(), start_new_session=True, stdout=log, stderr=log))

    yield start_node
    for node in nodes:
        os.killpg(node.pid, signal.SIGKILL)
        node.wait(timeout=60)


@pytest.fixture(scope="module")
def head(start: Callable[..., None]) -> str:
    """The address of a cluster whose only node has no CPU."""
    port, client = free_ports(2)
    start(
        "--head", "--num-cpus=0", f"--port={port}", "--include-dashboard=false", f"--ray-client-server-port={client}",
        f"--temp-dir=/tmp/r2med-grow-{os.getpid()}",
    )  # fmt: skip
    for _ in range(120):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return f"127.0.0.1:{port}"
        time.sleep(0.5)
    pytest.fail("the head did not start")


def test_nodes_that_do_not_come_end_the_job_with_what_it_needed_and_what_there_is(head: str, tmp_path: Path) -> None:
    config = write_config(tmp_path / "grow.yaml", systems=SYSTEMS, cluster={**ONE_NODE, "wait_s": 2})

    failed = run_job(config, "--store", tmp_path / "s", cwd=tmp_path, check=False, address=head)

    assert failed.returncode == 2, failed.stderr
    assert "error: preparing a corpus needs 1 × 1 CPU, and the cluster has 1 node(s), 0 CPUs, 0 GPUs" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_job_waits_for_a_node_uses_it_and_ends_as_on_one_machine(
    head: str, start: Callable[..., None], tmp_path: Path, address: str
) -> None:
    config = write_config(tmp_path / "grow.yaml", systems=SYSTEMS, cluster=ONE_NODE)
    log, output = tmp_path / "job.log", tmp_path / "out"
    command = [
        sys.executable,
        JOB,
        config,
        "--store",
        tmp_path / "s",
        "--output",
        tmp_path / "out",
        "--address",
        head,
    ]
    with log.open("w") as stream:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=stream, stderr=stream)
    job = RunningJob(process, log)
    try:
        job.wait_for("wait for nodes", lambda: "waiting for nodes: preparing a corpus needs" in log.read_text())
        start(f"--address={head}", "--num-cpus=2")
        assert process.wait(timeout=400) == 0, log.read_text()
    finally:
        job.kill()

    assert "cluster: up to 1 node(s), 2 CPUs, 0 GPUs" in log.read_text()
    alone = write_config(tmp_path / "alone.yaml", systems=SYSTEMS)
    run_job(alone, "--store", tmp_path / "other", "--output", tmp_path / "alone", cwd=tmp_path, address=address)
    assert run_files(output) == run_files(tmp_path / "alone")


def requested() -> object:
    """What the cluster's autoscaler is asked for now. Ray keeps it as JSON."""
    return json.loads(_internal_kv_get(AUTOSCALER_RESOURCE_REQUEST_CHANNEL) or "[]")


def test_a_request_for_nodes_stands_again_after_another_took_its_place(cluster: ClusterCapacity) -> None:
    stop = threading.Event()
    more_than_there_is = Pool(actors=int(cluster.cpus) + 1, cpus=1)
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(wait_for_nodes, "a stage", more_than_there_is, beside=0.5, wait_s=60, stop=stop)
        try:
            for _ in range(2):
                deadline = time.monotonic() + 30
                while requested() != [{"CPU": 1}] * (int(cluster.cpus) + 1) + [{"CPU": 0.5}]:
                    assert time.monotonic() < deadline, requested()
                    time.sleep(0.02)
                request_resources(bundles=[])  # as Ray Data's own actor does every 20 seconds
        finally:
            stop.set()
        with pytest.raises(StoppedError, match="a stage: stopped while it waited for nodes"):
            waits.result(timeout=60)
    request_resources(bundles=[])
