"""The pools that fit a cluster, and settings that it can never run."""

import pytest

from r2med_ray.errors import CapacityError
from r2med_ray.settings.pools import ClusterCapacity, Node, Pool
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.workbench.sizing import require_reranker, shard_actors, size_pools


def cluster(*nodes: tuple[float, float]) -> ClusterCapacity:
    """A cluster of nodes, each with CPUs and GPUs."""
    return ClusterCapacity(nodes=tuple(Node(cpus=cpus, gpus=gpus) for cpus, gpus in nodes))


LAPTOP = cluster((2, 0))
GPU_CLUSTER = cluster((16, 3), (16, 3), (16, 2))


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
        require_reranker(size_pools(resources(**stages), LAPTOP), LAPTOP)


def test_room_for_a_reranker_is_only_asked_for_where_there_is_one() -> None:
    assert size_pools(resources(rerank={"replicas": 2}), LAPTOP).rerank.actors == 2


@pytest.mark.parametrize(
    ("stages", "nodes", "replicas"),
    [
        pytest.param({}, [(2, 0)], 1, id="laptop"),
        pytest.param({}, [(16, 0)], 1, id="large-machine"),
        # Without GPUs there is one per node; the head has no room for a replica of 1 CPU.
        pytest.param({}, [(0.5, 0), (8, 0), (8, 0)], 2, id="nodes"),
        pytest.param({}, [(16, 3), (16, 3), (16, 2)], 8, id="one-per-gpu"),
        # Each node with GPUs has CPUs for one replica of 3 CPUs, although 16 - 16 × 0.25 = 12 CPUs would do for four.
        pytest.param({"rerank": {"cpus": 3}}, [(4, 2), (4, 2), (8, 0)], 2, id="nodes-not-sums"),
        # 4 CPUs, of which searching takes 4 × 0.25 = 1: three replicas of 1 CPU beside it.
        pytest.param({}, [(1, 1)] * 4, 3, id="beside-search"),
        # 4 actors that search with half a GPU take 2 of the 4 GPUs.
        pytest.param({"search": {"actors": 4, "gpus": 0.5}}, [(16, 4)], 2, id="beside-search-on-gpus"),
        pytest.param({"rerank": {"gpus": 0.5}}, [(16, 2)], 4, id="half-a-gpu"),
        pytest.param({"rerank": {"cpus": 0, "gpus": 0}}, [(4, 0)], 1, id="nothing-reserved"),
        pytest.param({"rerank": {"cpus": 0}}, [(4, 2)], 2, id="gpus-alone"),
        pytest.param({"rerank": {"replicas": 3}}, [(16, 8)], 3, id="as-it-was-set"),
    ],
)
def test_a_reranker_has_as_many_replicas_as_the_nodes_hold_beside_what_searches(
    stages: dict[str, dict[str, object]], nodes: list[tuple[float, float]], replicas: int
) -> None:
    pools = size_pools(resources(**stages), cluster(*nodes))

    assert pools.rerank.actors == replicas
    require_reranker(pools, cluster(*nodes))


def test_an_actor_is_never_larger_than_a_node() -> None:
    pools = size_pools(ResourcesConfig(), cluster((1, 0), (1, 0)))
    # One node encodes, and the tasks that read are on the other.
    assert pools.encode == Pool(actors=1, cpus=1.0)
    assert pools.rerank == Pool(actors=1, cpus=1.0)


def test_a_head_without_cpus_takes_no_part() -> None:
    pools = size_pools(ResourcesConfig(), cluster((0, 0), (8, 0), (4, 2)))
    # Both GPUs are on a node of 4 CPUs; 12 CPUs in all.
    assert (pools.encode.actors, pools.encode.cpus, pools.encode.gpus) == (2, 1.0, 1.0)
    assert pools.search.actors == 12


@pytest.mark.parametrize(
    ("search", "documents", "shards", "actors"),
    [
        pytest.param({}, 1001, 3, 3, id="one-per-shard"),
        pytest.param({}, 1001, 20, 16, id="one-per-cpu"),
        pytest.param({}, 1000, 20, 1, id="small-corpus"),
        pytest.param({"actors": 4}, 1000, 20, 4, id="as-asked-for"),
        pytest.param({"actors": 4}, 1000, 2, 2, id="no-actor-without-a-shard"),
    ],
)
def test_the_shards_of_a_small_corpus_share_one_actor_unless_more_are_asked_for(
    search: dict[str, object], documents: int, shards: int, actors: int
) -> None:
    asked = resources(search=search)
    pool = size_pools(asked, cluster((16, 0))).search

    assert shard_actors(pool, asked.search, documents, shards) == Pool(actors=actors, cpus=0.25)


@pytest.mark.parametrize("nodes", [[(0, 0)], [(0.5, 0)], []])
def test_a_cluster_without_cpus_is_refused_in_one_line(nodes: list[tuple[float, float]]) -> None:
    with pytest.raises(
        CapacityError, match=r"^the cluster has 0(\.5)? CPUs on \d node\(s\); reading alone takes 0.5"
    ):
        size_pools(resources(search={"cpus": 0}), cluster(*nodes))


@pytest.mark.parametrize(
    ("stages", "nodes", "message"),
    [
        pytest.param(
            {"encode": {"cpus": 8, "gpus": 1}},
            [(16, 0), (1, 1)],
            r"encode.cpus is 8 for one actor; the largest node with 1 GPU has 1 CPUs",
            id="cpus-beside-a-gpu",
        ),
        pytest.param(
            {"encode": {"gpus": 2}},
            [(8, 1), (8, 1)],
            r"encode.gpus is 2 for one actor; the node with the most GPUs has 1",
            id="gpus-of-one-node",
        ),
        pytest.param(
            {"search": {"actors": 3, "cpus": 3}},
            [(5, 0), (5, 0)],
            r"search reserves 3 × \(3 CPU, 0 GPU\), each on one node; the nodes have room for 2",
            id="each-on-one-node",
        ),
    ],
)
def test_what_fits_the_sum_of_the_nodes_and_no_node_is_refused(
    stages: dict[str, dict[str, object]], nodes: list[tuple[float, float]], message: str
) -> None:
    with pytest.raises(CapacityError, match=message):
        size_pools(resources(**stages), cluster(*nodes))
