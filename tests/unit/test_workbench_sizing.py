"""The pools that fit a cluster, and settings that it can never run."""

import pytest

from r2med_ray.errors import CapacityError
from r2med_ray.settings.pools import ClusterCapacity, Pool
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.workbench.sizing import size_pools

LAPTOP = ClusterCapacity(num_nodes=1, cpus=2, gpus=0, cpus_of_largest_node=2)
GPU_CLUSTER = ClusterCapacity(num_nodes=3, cpus=48, gpus=8, cpus_of_largest_node=16)


def resources(**stages: dict[str, object]) -> ResourcesConfig:
    return ResourcesConfig.model_validate(stages)


def test_ry01_a_pool_leaves_room_for_the_tasks_that_read_for_it() -> None:
    pools = size_pools(ResourcesConfig(), LAPTOP)
    # Of 2 CPUs, half a CPU is kept for reading.
    assert pools.encode == Pool(actors=1, cpus=1.5, gpus=0.0)


def test_ry03_an_actor_computes_with_the_cpus_it_was_granted() -> None:
    assert size_pools(ResourcesConfig(), LAPTOP).encode.threads == 2
    assert size_pools(resources(encode={"cpus": 1}), LAPTOP).encode.threads == 1


def test_every_gpu_gets_an_encoder() -> None:
    pools = size_pools(ResourcesConfig(), GPU_CLUSTER)
    assert (pools.encode.actors, pools.encode.gpus, pools.encode.device) == (8, 1.0, "cuda")


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        pytest.param(
            {"encode": {"gpus": 1}}, r"resources.encode reserves 1 × 1 GPU, 1 in all; the cluster has 0", id="gpu"
        ),
        pytest.param({"encode": {"cpus": 2}}, r"1 × 2 CPU beside 0.5 .*2.5 in all; the cluster has 2", id="ry01"),
        pytest.param({"search": {"actors": 9}}, r"9 × 0.25 CPU, 2.25 in all; the cluster has 2", id="shard-actors"),
        pytest.param({"rerank": {"replicas": 2}}, r"2 × 1 CPU beside 0.5 .*2.5 in all", id="replicas"),
        pytest.param({"rerank": {"cpus": 4}}, r"rerank.cpus is 4 for one actor; the largest node has 2", id="node"),
    ],
)
def test_a_plan_that_can_never_be_scheduled_is_refused_with_both_numbers(
    stages: dict[str, dict[str, object]], message: str
) -> None:
    with pytest.raises(CapacityError, match=message):
        size_pools(resources(**stages), LAPTOP)
