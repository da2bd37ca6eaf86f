"""A job on a cluster that grows: it waits for nodes aloud, uses them, and gives the results of one machine."""

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ray._private.ray_constants import AUTOSCALER_RESOURCE_REQUEST_CHANNEL
from ray._raylet import GcsClient
from ray.autoscaler.sdk import request_resources
from ray.core.generated.autoscaler_pb2 import (
    AutoscalingState,
    ClusterConfig,
    ClusterResourceConstraint,
    NodeGroupConfig,
    ResourceRequest,
    ResourceRequestByCount,
)
from ray.experimental.internal_kv import _internal_kv_get

from r2med_ray.distributed.growing import NodeRequests
from r2med_ray.errors import CapacityError, StoppedError
from r2med_ray.settings.pools import ClusterCapacity, Pool
from tests.fakes import wait_until
from tests.integration import shrinking
from tests.integration.jobs import REPOSITORY, run_files, run_job, running, running_job, write_config
from tests.integration.nodes import Nodes, nodes_in

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

SYSTEMS = [{"name": "bm25", "retriever": "bm25"}]
ONE_NODE = {"nodes": [{"cpus": 2, "max": 1}], "wait_s": 300}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """The nodes of one cluster; all of them end with the tests."""
    with nodes_in(tmp_path_factory.mktemp("nodes")) as started:
        yield started


@pytest.fixture(scope="module")
def head(nodes: Nodes) -> str:
    """The address of a cluster whose only node has no CPU."""
    return nodes.start_head()


def test_nodes_that_do_not_come_end_the_job_with_what_it_needed_and_what_there_is(head: str, tmp_path: Path) -> None:
    config = write_config(tmp_path / "grow.yaml", systems=SYSTEMS, cluster={**ONE_NODE, "wait_s": 2})

    failed = run_job(config, "--store", tmp_path / "s", cwd=tmp_path, check=False, address=head)

    assert failed.returncode == 2, failed.stderr
    assert "error: preparing a corpus needs 1 × 1 CPU, and the cluster has 1 node(s), 0 CPUs, 0 GPUs" in failed.stderr
    assert "Traceback" not in failed.stderr


def as_the_hosted_services_do(address: str, *groups: NodeGroupConfig) -> None:
    """Tell Ray the configuration of its cluster."""
    config = ClusterConfig(node_group_configs=groups, max_resources={"CPU": 20, "GPU": 100})
    GcsClient(address).report_cluster_config(config.SerializeToString())


def test_a_job_is_sized_by_the_first_of_benchmark_file_ray_and_the_file_of_ray_up(
    head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(**changes: object) -> str:
        config = write_config(tmp_path / "plan.yaml", systems=SYSTEMS, **changes)
        command = ("--store", tmp_path / "s", "--dry-run")
        return run_job(config, *command, cwd=tmp_path, address=head).stdout

    (tmp_path / "ray_bootstrap_config.yaml").write_text(
        "head_node_type: h\nmax_workers: 5\navailable_node_types: {h: {}, c: {resources: {CPU: 4}, max_workers: 9}}\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    by_file = "up to 5 node(s), 20 CPUs, 0 GPUs, by ~/ray_bootstrap_config.yaml of `ray up`"
    assert by_file in planned()

    # 3 nodes of 4 CPUs and 2 GPUs come first. Of the groups with 8 CPUs, 20 - 12 CPUs have room for one more node.
    gpu = NodeGroupConfig(name="gpu", resources={"CPU": 4, "GPU": 2}, max_count=3)
    as_the_hosted_services_do(head, NodeGroupConfig(name="cpu", resources={"CPU": 8}, max_count=-1), gpu)
    try:
        assert "up to 4 node(s), 20 CPUs, 6 GPUs, by the cluster's configuration, as Ray reports it" in planned()
        assert "up to 1 node(s), 2 CPUs, 0 GPUs, by `cluster:` of the benchmark file" in planned(cluster=ONE_NODE)
    finally:
        as_the_hosted_services_do(head)


def test_what_rays_autoscaler_calls_infeasible_ends_the_wait_with_what_it_says(head: str, tmp_path: Path) -> None:
    def reported(version: int, *bundles: tuple[Mapping[str, float], int]) -> None:
        """Report as Ray's second autoscaler does after each of its rounds."""
        asked = [
            ResourceRequestByCount(request=ResourceRequest(resources_bundle=bundle), count=count)
            for bundle, count in bundles
        ]
        state = AutoscalingState(
            autoscaler_state_version=version,
            infeasible_cluster_resource_constraints=[ClusterResourceConstraint(resource_requests=asked)],
        )
        GcsClient(head).report_autoscaling_state(state.SerializeToString())

    reported(1, ({"CPU": 1}, 1), ({"CPU": 0.5}, 1))
    config = write_config(tmp_path / "grow.yaml", systems=SYSTEMS, cluster=ONE_NODE)

    failed = run_job(config, "--store", tmp_path / "s", cwd=tmp_path, check=False, address=head)

    assert failed.returncode == 2, failed.stderr
    assert "Ray's autoscaler says that 1 × (1 CPU) + 1 × (0.5 CPU) is infeasible" in failed.stderr
    reported(2, ({"GPU": 8}, 1))  # another request, which says nothing about this one
    config = write_config(tmp_path / "grow.yaml", systems=SYSTEMS, cluster={**ONE_NODE, "wait_s": 2})
    failed = run_job(config, "--store", tmp_path / "s", cwd=tmp_path, check=False, address=head)
    assert "infeasible" not in failed.stderr
    assert "after 0 min. Look at `ray status`" in failed.stderr


def test_a_job_waits_for_a_node_uses_it_and_ends_as_on_one_machine(
    head: str, nodes: Nodes, tmp_path: Path, address: str
) -> None:
    config = write_config(tmp_path / "grow.yaml", systems=SYSTEMS, cluster=ONE_NODE)
    output = tmp_path / "out"
    with running_job(config, "--store", tmp_path / "s", "--output", output, cwd=tmp_path, address=head) as job:
        job.wait_for("wait for nodes", lambda: "waiting for nodes: preparing a corpus needs" in job.log.read_text())
        nodes.start(f"--address={head}", "--num-cpus=2")
        assert job.process.wait(timeout=400) == 0, job.log.read_text()

    assert "cluster: up to 1 node(s), 2 CPUs, 0 GPUs" in job.log.read_text()
    alone = write_config(tmp_path / "alone.yaml", systems=SYSTEMS)
    run_job(alone, "--store", tmp_path / "other", "--output", tmp_path / "alone", cwd=tmp_path, address=address)
    assert run_files(output) == run_files(tmp_path / "alone")


def requested() -> object:
    """What the cluster's autoscaler is asked for now. Ray keeps it as JSON."""
    return json.loads(_internal_kv_get(AUTOSCALER_RESOURCE_REQUEST_CHANNEL) or "[]")


def test_a_request_for_nodes_stands_again_after_another_took_its_place(cluster: ClusterCapacity) -> None:
    stop = threading.Event()
    more_than_there_is = Pool(actors=int(cluster.cpus) + 1, cpus=1)

    def wait() -> None:
        with NodeRequests().held("a stage", more_than_there_is, beside=0.5, wait_s=60, stop=stop):
            pass

    with ThreadPoolExecutor() as threads:
        waits = threads.submit(wait)
        try:
            for _ in range(2):
                wait_until(lambda: requested() == [{"CPU": 1}] * (int(cluster.cpus) + 1) + [{"CPU": 0.5}], 30)
                request_resources(bundles=[])  # as Ray Data's own actor does every 20 seconds
        finally:
            stop.set()
        with pytest.raises(StoppedError, match="a stage: stopped while it waited for nodes"):
            waits.result(timeout=60)
    assert requested() == []


def test_the_nodes_of_a_stage_are_asked_for_until_it_ends_beside_those_of_another(cluster: ClusterCapacity) -> None:
    requests, stop = NodeRequests(), threading.Event()
    one, half = Pool(actors=1, cpus=1), Pool(actors=2, cpus=0.25)
    with requests.held("writing", one, beside=0.25, wait_s=60, stop=stop):
        with requests.held("encoding", half, beside=0, wait_s=60, stop=stop):
            assert requested() == [{"CPU": 1}, {"CPU": 0.25}, {"CPU": 0.25}, {"CPU": 0.25}]
        assert requested() == [{"CPU": 1}, {"CPU": 0.25}]
    assert requested() == []


def test_a_stage_waits_for_nodes_of_its_own_while_another_holds_those_that_there_are(
    cluster: ClusterCapacity,
) -> None:
    requests, stop = NodeRequests(), threading.Event()
    all_there_is = Pool(actors=int(cluster.cpus), cpus=1)
    with requests.held("writing", all_there_is, beside=0, wait_s=60, stop=stop):
        late = requests.held("encoding", Pool(actors=1, cpus=1), beside=0, wait_s=0.1, stop=stop)
        with pytest.raises(CapacityError, match="encoding needs 1 × 1 CPU, and the cluster has 1 node"), late:
            raise AssertionError("two stages have the same CPUs")
    assert requested() == []


def test_what_has_nothing_left_to_do_gives_its_cpus_and_nodes_back_while_others_work(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with nodes_in(tmp_path / "logs") as started:
        address = started.start_head()
        for _ in range(2):
            started.start(f"--address={address}", "--num-cpus=2")
        command = [sys.executable, "-m", shrinking.__name__, address, tmp_path, "4"]
        with running(command, cwd=REPOSITORY, log=tmp_path / "driver.log") as driver:
            assert driver.process.wait(timeout=500) == 0, driver.log.read_text()
