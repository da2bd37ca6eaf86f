"""What a cluster that grows can become."""

import pytest

from r2med_ray.distributed.growing import capacity_of
from r2med_ray.errors import CapacityError, ConfigError
from r2med_ray.settings.config_files import parse_config
from r2med_ray.settings.pools import Node
from r2med_ray.settings.resources import ClusterConfig, ResourcesConfig
from r2med_ray.workbench.sizing import size_pools

SPOT = ClusterConfig.model_validate({"nodes": [{"cpus": 8, "max": 1}, {"cpus": 4, "gpus": 1, "max": 3}]})


def test_a_job_is_sized_by_the_nodes_that_its_cluster_may_have() -> None:
    capacity = capacity_of(SPOT)

    assert capacity.nodes == (Node(cpus=8), *[Node(cpus=4, gpus=1)] * 3)
    assert capacity.describe() == "up to 4 node(s), 20 CPUs, 3 GPUs"
    assert size_pools(ResourcesConfig(), capacity).encode.actors == 3


def test_what_the_cluster_can_never_become_is_refused_at_once() -> None:
    wanted = ResourcesConfig.model_validate({"encode": {"gpus": 8}})

    with pytest.raises(CapacityError, match=r"encode reserves 1 × 8 GPU, 8 in all; the cluster has 3"):
        size_pools(wanted, capacity_of(SPOT))


@pytest.mark.parametrize(
    ("cluster", "message"),
    [({"nodes": []}, "cluster.nodes"), ({"nodes": [{"cpus": 1, "max": 0}]}, r"cluster.nodes.0.max"), ({}, "nodes")],
)
def test_nodes_that_make_no_sense_are_refused(cluster: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(
            {"name": "b", "tasks": ["x"], "systems": [{"name": "s", "retriever": "bm25"}], "cluster": cluster}
        )
