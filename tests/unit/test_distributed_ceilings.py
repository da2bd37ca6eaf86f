"""What a cluster that grows can become."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from r2med_ray.distributed.ceilings import named_by, named_by_launcher, with_nodes_there
from r2med_ray.errors import CapacityError, ConfigError
from r2med_ray.settings.config_files import parse_config
from r2med_ray.settings.pools import ClusterCapacity, Node
from r2med_ray.settings.resources import ClusterConfig, ResourcesConfig
from r2med_ray.workbench.sizing import size_pools
from tests.unit.cluster_files import CLUSTER, LAUNCHER_FILES

SPOT = ClusterConfig.model_validate({"nodes": [{"cpus": 8, "max": 1}, {"cpus": 4, "gpus": 1, "max": 3}]})


def test_a_job_is_sized_by_the_nodes_that_its_cluster_may_have() -> None:
    capacity = named_by(SPOT)

    assert capacity.nodes == (Node(cpus=8), *[Node(cpus=4, gpus=1)] * 3)
    assert capacity.describe() == "up to 4 node(s), 20 CPUs, 3 GPUs"
    assert size_pools(ResourcesConfig(), capacity).encode.actors == 3


def test_what_the_cluster_can_never_become_is_refused_at_once() -> None:
    wanted = ResourcesConfig.model_validate({"encode": {"gpus": 8}})

    with pytest.raises(CapacityError, match=r"encode reserves 1 × 8 GPU, 8 in all; the cluster has 3"):
        size_pools(wanted, named_by(SPOT))


@pytest.mark.parametrize(
    ("cluster", "message"),
    [({"nodes": []}, "cluster.nodes"), ({"nodes": [{"cpus": 1, "max": 0}]}, r"cluster.nodes.0.max"), ({}, "nodes")],
)
def test_nodes_that_make_no_sense_are_refused(cluster: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(
            {"name": "b", "tasks": ["x"], "systems": [{"name": "s", "retriever": "bm25"}], "cluster": cluster}
        )


LAUNCHER = {
    "cluster_name": "mine",
    "max_workers": 4,
    "head_node_type": "head",
    "available_node_types": {
        "head": {"resources": {"CPU": 2}, "max_workers": 0},
        "cpu": {"resources": {"CPU": 16, "memory": 32 * 2**30}, "max_workers": 3},
        "gpu": {"resources": {"CPU": 8, "GPU": 1}, "max_workers": 3},
    },
}


def test_a_file_of_ray_up_names_its_head_and_the_workers_that_may_be_there_together(tmp_path: Path) -> None:
    (tmp_path / "launcher.yaml").write_text(yaml.safe_dump(LAUNCHER))

    capacity = named_by_launcher(tmp_path / "launcher.yaml")

    # 3 GPU nodes and 3 CPU nodes are more than the 4 workers that may be there; GPU nodes go first.
    assert capacity.nodes == (Node(cpus=2), *[Node(cpus=8, gpus=1)] * 3, Node(cpus=16, memory_gb=32))
    assert capacity.source == "~/ray_bootstrap_config.yaml of `ray up`"
    assert capacity.wait_s == 1800


@pytest.mark.parametrize("file", LAUNCHER_FILES)
def test_our_own_launcher_files_are_understood(file: str) -> None:
    # 14 workers of at most 4 with 16 CPUs, and 8 spot and 2 other nodes with 8 CPUs and a GPU: all 14 at once.
    capacity = named_by_launcher(CLUSTER / file)

    assert (capacity.num_nodes, capacity.cpus, capacity.gpus) == (15, 4 * 16 + 10 * 8, 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_workers": None}, "launcher.yaml of `ray up`: max_workers: .*got None"),
        ({"head_node_type": "boss"}, "head_node_type 'boss' is not an available type"),
    ],
)
def test_a_file_that_ray_up_did_not_write_is_named(
    tmp_path: Path, change: Mapping[str, object], message: str
) -> None:
    (tmp_path / "launcher.yaml").write_text(yaml.safe_dump({**LAUNCHER, **change}))

    with pytest.raises(ConfigError, match=message):
        named_by_launcher(tmp_path / "launcher.yaml")


def test_a_node_that_is_there_counts_once_whether_it_is_named_or_not() -> None:
    there = ClusterCapacity(nodes=(Node(cpus=2), Node(cpus=8), Node(cpus=0)))

    capacity = with_nodes_there(named_by(SPOT), there)

    # The node of 8 CPUs is the one that is named; the one of 2 isn't named; the last has nothing to work with.
    assert capacity.nodes == (*named_by(SPOT).nodes, Node(cpus=2))
    assert capacity.grows
