"""What each stage reserves: `auto` is worked out from what the cluster has; what can never fit is refused."""

import math

from r2med_ray.errors import CapacityError
from r2med_ray.settings.pools import CPUS_FOR_READING, CPUS_OF_AN_INGRESS, ClusterCapacity, Pool, Pools
from r2med_ray.settings.resources import ResourcesConfig


def size_pools(resources: ResourcesConfig, capacity: ClusterCapacity) -> Pools:
    """Size every stage for a cluster.

    Raises:
        CapacityError: a stage asks for more than the cluster has, with both numbers.
    """
    encode, search, rerank = resources.encode, resources.search, resources.rerank
    gpus_of_a_model = 1.0 if capacity.gpus >= 1 else 0.0
    encode_gpus = gpus_of_a_model if encode.gpus == "auto" else encode.gpus
    rerank_gpus = gpus_of_a_model if rerank.gpus == "auto" else rerank.gpus
    rerank_cpus = min(1.0, capacity.cpus / 2) if rerank.cpus == "auto" else rerank.cpus
    small_machine = capacity.cpus - CPUS_FOR_READING < 2
    cpus_of_a_model = capacity.cpus - CPUS_FOR_READING if small_machine else 1.0
    encode_cpus = cpus_of_a_model if encode.cpus == "auto" else encode.cpus
    encode_actors = _fitting(capacity, encode_cpus, encode_gpus) if encode.actors == "auto" else encode.actors
    search_actors = max(1, int(capacity.cpus)) if search.actors == "auto" else search.actors
    pools = Pools(
        encode=Pool(actors=encode_actors, cpus=encode_cpus, gpus=encode_gpus),
        tokenize=Pool(actors=_fitting(capacity, 1.0, 0.0), cpus=min(1.0, capacity.cpus - CPUS_FOR_READING)),
        search=Pool(actors=search_actors, cpus=search.cpus, gpus=search.gpus),
        rerank=Pool(actors=rerank.replicas, cpus=rerank_cpus, gpus=rerank_gpus),
        language_model=Pool(
            actors=1,
            cpus=resources.language_model.cpus,
            gpus=gpus_of_a_model if resources.language_model.gpus == "auto" else resources.language_model.gpus,
        ),
    )
    _require("encode", pools.encode, capacity, at_once=1, beside=CPUS_FOR_READING)
    _require("search", pools.search, capacity, at_once=pools.search.actors)
    _require(
        "rerank", pools.rerank, capacity, at_once=pools.rerank.actors, beside=pools.search.actors * pools.search.cpus
    )
    return pools


def require_language_model(name: str, workers: int, pools: Pools, capacity: ClusterCapacity) -> None:
    """Refuse a language model that can never be scheduled beside the shards that it searches or reranks.

    Raises:
        CapacityError: its workers reserve more than the cluster has, with both numbers.
    """
    beside = CPUS_OF_AN_INGRESS + pools.search.actors * pools.search.cpus
    _require("language_model", pools.language_model, capacity, at_once=workers, beside=beside, unit=f" for {name!r}")


def _fitting(capacity: ClusterCapacity, cpus: float, gpus: float) -> int:
    by_cpu = math.floor((capacity.cpus - CPUS_FOR_READING) / cpus)
    by_gpu = math.floor(capacity.gpus / gpus) if gpus else by_cpu
    return max(1, min(by_cpu, by_gpu))


def _require(
    stage: str, pool: Pool, capacity: ClusterCapacity, *, at_once: int, beside: float = 0.0, unit: str = ""
) -> None:
    """Refuse what can never be scheduled. An encode pool works with one actor, the others need all of theirs."""
    if pool.cpus > capacity.cpus_of_largest_node:
        raise CapacityError(
            f"resources.{stage}.cpus is {pool.cpus:g} for one actor; the largest node has "
            f"{capacity.cpus_of_largest_node:g} CPUs"
        )
    for name, each, extra, there in (
        ("CPU", pool.cpus, beside, capacity.cpus),
        ("GPU", pool.gpus, 0.0, capacity.gpus),
    ):
        wanted = each * at_once + extra
        if wanted > there:
            others = f" beside {extra:g} for what runs at the same time" if extra else ""
            raise CapacityError(
                f"resources.{stage}{unit} reserves {at_once} × {each:g} {name}{others}, {wanted:g} in all; "
                f"the cluster has {there:g}. Lower resources.{stage} or add nodes"
            )
