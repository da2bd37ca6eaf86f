"""What each stage reserves: `auto` is worked out from the nodes of the cluster; what can never fit is refused.

Ray places an actor on one node, so sizes follow the nodes and not their sums.
"""

import math
from dataclasses import replace

from r2med_ray.errors import CapacityError
from r2med_ray.settings.pools import CPUS_FOR_READING, CPUS_OF_AN_INGRESS, ClusterCapacity, Pool, Pools
from r2med_ray.settings.resources import ResourcesConfig, SearchResources

SMALL_CORPUS = 1000
"""Documents up to which one actor holds all shards of an index. A second one takes longer to start than to search."""


def size_pools(resources: ResourcesConfig, capacity: ClusterCapacity) -> Pools:
    """Size every stage for a cluster.

    Raises:
        CapacityError: a stage that every benchmark may need asks for more than the cluster has, with both numbers.
    """
    if capacity.cpus <= CPUS_FOR_READING:
        raise CapacityError(
            f"the cluster has {capacity.cpus:g} CPUs on {capacity.num_nodes} node(s); reading alone takes "
            f"{CPUS_FOR_READING:g}. Add nodes, or name those that may join under `cluster: {{nodes: [...]}}`"
        )
    encode, search, rerank = resources.encode, resources.search, resources.rerank
    gpus_of_a_model = 1.0 if capacity.gpus >= 1 else 0.0
    encode_gpus = gpus_of_a_model if encode.gpus == "auto" else encode.gpus
    rerank_gpus = gpus_of_a_model if rerank.gpus == "auto" else rerank.gpus
    rerank_cpus = min(1.0, capacity.cpus / 2, _most(capacity, rerank_gpus)) if rerank.cpus == "auto" else rerank.cpus
    encode_cpus = _cpus_of_a_model(capacity, encode_gpus) if encode.cpus == "auto" else encode.cpus
    encode_actors = _fitting(capacity, encode_cpus, encode_gpus) if encode.actors == "auto" else encode.actors
    search_pool = Pool(
        actors=max(1, int(capacity.cpus)) if search.actors == "auto" else search.actors,
        cpus=search.cpus,
        gpus=search.gpus,
    )
    tokenize_cpus = min(1.0, capacity.cpus - CPUS_FOR_READING, capacity.most_cpus())
    pools = Pools(
        encode=Pool(actors=encode_actors, cpus=encode_cpus, gpus=encode_gpus),
        tokenize=Pool(actors=_fitting(capacity, tokenize_cpus, 0.0), cpus=tokenize_cpus),
        search=search_pool,
        rerank=Pool(
            actors=_replicas(capacity, search_pool, rerank_cpus, rerank_gpus)
            if rerank.replicas == "auto"
            else rerank.replicas,
            cpus=rerank_cpus,
            gpus=rerank_gpus,
        ),
        language_model=Pool(
            actors=1,
            cpus=resources.language_model.cpus,
            gpus=gpus_of_a_model if resources.language_model.gpus == "auto" else resources.language_model.gpus,
        ),
    )
    _require("encode", pools.encode, capacity, at_once=1, beside=CPUS_FOR_READING)
    _require("search", pools.search, capacity, at_once=pools.search.actors)
    return pools


def shard_actors(pool: Pool, search: SearchResources, num_documents: int, num_shards: int) -> Pool:
    """Return the actors that share the shards of one corpus.

    Args:
        pool: the actors of the largest corpus.
        search: what the benchmark file says.
        num_documents: documents of this corpus.
        num_shards: its shards.
    """
    is_small = search.actors == "auto" and num_documents <= SMALL_CORPUS
    return replace(pool, actors=1 if is_small else min(pool.actors, num_shards))


def require_reranker(pools: Pools, capacity: ClusterCapacity) -> None:
    """Refuse a reranker that can never be scheduled beside the shards that it reranks.

    Raises:
        CapacityError: its replicas reserve more than the cluster has, with both numbers.
    """
    beside = pools.search.actors * pools.search.cpus
    _require("rerank", pools.rerank, capacity, at_once=pools.rerank.actors, beside=beside)


def require_language_model(name: str, workers: int, pools: Pools, capacity: ClusterCapacity) -> None:
    """Refuse a language model that can never be scheduled beside the shards that it searches or reranks.

    Raises:
        CapacityError: its workers reserve more than the cluster has, with both numbers.
    """
    beside = CPUS_OF_AN_INGRESS + pools.search.actors * pools.search.cpus
    _require("language_model", pools.language_model, capacity, at_once=workers, beside=beside, unit=f" for {name!r}")


def _most(capacity: ClusterCapacity, gpus: float) -> float:
    """Return the CPUs of the largest node that has so many GPUs, or of the largest one if none has."""
    return capacity.most_cpus(gpus) or capacity.most_cpus()


def _cpus_of_a_model(capacity: ClusterCapacity, gpus: float) -> float:
    """Return 1, or all that a small node or machine has but the CPUs for reading."""
    there = min(capacity.cpus - CPUS_FOR_READING, _most(capacity, gpus))
    return there if there < 2 else 1.0


def _fitting(capacity: ClusterCapacity, cpus: float, gpus: float) -> int:
    beside_reading = math.floor((capacity.cpus - CPUS_FOR_READING) / cpus)
    return max(1, min(beside_reading, capacity.places(cpus, gpus)))


def _replicas(capacity: ClusterCapacity, search: Pool, cpus: float, gpus: float) -> int:
    """Return how many replicas of a reranker fit beside the actors that search, at least 1.

    Without a GPU there is at most one on a node: each holds the model in the node's memory.
    """
    if not gpus:
        nodes = [node for node in capacity.nodes if node.cpus >= cpus]
        most = [len(nodes)]
    else:
        most = [capacity.places(cpus, gpus), math.floor((capacity.gpus - search.actors * search.gpus) / gpus)]
    if cpus:
        most.append(math.floor((capacity.cpus - search.actors * search.cpus) / cpus))
    return max(1, min(most))


def _require(
    stage: str, pool: Pool, capacity: ClusterCapacity, *, at_once: int, beside: float = 0.0, unit: str = ""
) -> None:
    """Refuse what can never be scheduled. An encode pool works with one actor, the others need all of theirs."""

    def require_in_all(name: str, each: float, there: float, extra: float = 0.0) -> None:
        wanted = each * at_once + extra
        if wanted > there:
            others = f" beside {extra:g} for what runs at the same time" if extra else ""
            raise CapacityError(
                f"resources.{stage}{unit} reserves {at_once} × {each:g} {name}{others}, {wanted:g} in all; "
                f"the cluster has {there:g}. Lower resources.{stage} or add nodes"
            )

    require_in_all("GPU", pool.gpus, capacity.gpus)
    if pool.gpus > capacity.most_gpus():
        raise CapacityError(
            f"resources.{stage}.gpus is {pool.gpus:g} for one actor; the node with the most GPUs has "
            f"{capacity.most_gpus():g}"
        )
    if pool.cpus > capacity.most_cpus(pool.gpus):
        kind = f"node with {pool.gpus:g} GPU" if pool.gpus else "node"
        raise CapacityError(
            f"resources.{stage}.cpus is {pool.cpus:g} for one actor; the largest {kind} has "
            f"{capacity.most_cpus(pool.gpus):g} CPUs"
        )
    require_in_all("CPU", pool.cpus, capacity.cpus, beside)
    if pool.cpus + pool.gpus and capacity.places(pool.cpus, pool.gpus) < at_once:
        raise CapacityError(
            f"resources.{stage}{unit} reserves {at_once} × ({pool.cpus:g} CPU, {pool.gpus:g} GPU), each on one node; "
            f"the nodes have room for {capacity.places(pool.cpus, pool.gpus)}. Lower resources.{stage} or add nodes"
        )
