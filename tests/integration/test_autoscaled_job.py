"""A job on a cluster whose autoscaler starts nodes for it and ends them afterwards: real raylets on this machine."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from ray._raylet import GcsClient
from ray.core.generated.gcs_pb2 import GcsNodeInfo

from tests.fakes import wait_until
from tests.integration.jobs import SHORT, environment, run_files, run_job, running_job, write_config
from tests.integration.nodes import GROWING, nodes_in

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

NODES = {"nodes": [{"cpus": 2, "max": 1}, {"cpus": 1, "gpus": 1, "max": 1}], "wait_s": 300}


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster that has a head without CPUs, and can have one node with CPUs and one with a GPU."""
    with nodes_in(tmp_path_factory.mktemp("nodes"), env=environment(**GROWING)) as nodes:
        yield nodes.start_growing_head(cpu={"CPU": 2}, gpu={"CPU": 1, "GPU": 1})


def nodes_there(address: str) -> int:
    nodes = GcsClient(address).get_all_node_info().values()
    return sum(node.state == GcsNodeInfo.ALIVE for node in nodes)


def test_a_job_brings_up_the_nodes_of_its_stages_and_they_go_when_it_has_ended(
    head: str, tmp_path: Path, address: str
) -> None:
    # The GPU only says on which node the index is: BM25 doesn't compute with it.
    systems = [{"name": "bm25", "retriever": "bm25"}]
    resources = {"documents_per_shard": 20, "encode": {"gpus": 0}, "search": {"gpus": 1, "cpus": 0.25, "actors": 1}}
    config = write_config(tmp_path / "grow.yaml", systems=systems, resources=resources, cluster=NODES)
    assert nodes_there(head) == 1

    job = run_job(config, "--store", tmp_path / "s", "--output", tmp_path / "grown", cwd=tmp_path, address=head)

    assert (
        "waiting for nodes: preparing a corpus needs 1 × 1 CPU, and the cluster has 1 node(s), 0 CPUs" in job.stderr
    )
    assert "waiting for nodes: the index of Demo-Posts needs 1 × 0.25 CPU + 1 GPU" in job.stderr
    alone = write_config(tmp_path / "alone.yaml", systems=systems)
    run_job(alone, "--store", tmp_path / "other", "--output", tmp_path / "alone", cwd=tmp_path, address=address)
    assert len(run_files(tmp_path / "grown")) == 1
    assert run_files(tmp_path / "grown") == run_files(tmp_path / "alone")
    wait_until(lambda: nodes_there(head) == 1, deadline_s=200)


def raylets(address: str) -> set[int]:
    """Return the process ids of a cluster's raylets. A process that a raylet has just forked has its title, too."""
    parents = {
        process.pid: process.info["ppid"]
        for process in psutil.process_iter(["cmdline", "ppid"])
        if (command := process.info["cmdline"])
        and command[0].endswith("raylet/raylet")
        and f"--gcs-address={address}" in command
    }
    return {pid for pid, parent in parents.items() if parent not in parents}


def test_a_node_that_goes_while_it_encodes_is_replaced_and_nothing_is_lost(
    head: str, tmp_path: Path, address: str
) -> None:
    letters = {"name": "letters", "class": "tests.integration.workers.GatedLetters", "similarity": "dot"}
    rows = {"encoders": [{**letters, "max_length": 8, "query_prompt": str(tmp_path)}]}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump(rows))
    systems = [{"name": "letters", "retriever": "letters"}]
    settings = {"models": "models.yaml", "systems": systems, "baseline": None}
    resources = {"documents_per_shard": 20, "encode": {"gpus": 0}}
    cluster = {"nodes": [{"cpus": 2, "max": 1}], "wait_s": 300}
    config = write_config(tmp_path / "spot.yaml", resources=resources, cluster=cluster, **settings)
    before = raylets(head)
    with running_job(
        config, "--store", tmp_path / "s", "--output", tmp_path / "o", cwd=tmp_path, address=head
    ) as job:
        job.wait_for("encoding", (tmp_path / "encoding").exists, limit_s=300)
        [lost] = raylets(head) - before
        psutil.Process(lost).kill()
        (tmp_path / "go").touch()
        assert job.process.wait(timeout=400) == 0, job.log.read_text()

    alone = write_config(tmp_path / "alone.yaml", resources={"documents_per_shard": 20}, **settings)
    run_job(alone, "--store", tmp_path / "other", "--output", tmp_path / "alone", cwd=tmp_path, address=address)
    assert len(run_files(tmp_path / "o")) == 1
    assert run_files(tmp_path / "o") == run_files(tmp_path / "alone")


def test_a_demand_that_no_kind_of_node_can_meet_ends_the_job_long_before_its_wait_does(
    head: str, tmp_path: Path
) -> None:
    # The benchmark file says more than the cluster's autoscaler knows of.
    systems = [{"name": "minilm", "retriever": SHORT}]
    resources = {"encode": {"cpus": 3, "gpus": 0}}
    cluster = {"nodes": [{"cpus": 4, "max": 1}], "wait_s": 3600}
    config = write_config(tmp_path / "big.yaml", systems=systems, baseline=None, resources=resources, cluster=cluster)

    failed = run_job(config, "--store", tmp_path / "s", cwd=tmp_path, address=head, check=False)

    assert failed.returncode == 2, failed.stderr
    assert "Ray's autoscaler says that 1 × (3 CPU) + 1 × (0.5 CPU) is infeasible" in failed.stderr
    assert "Traceback" not in failed.stderr
