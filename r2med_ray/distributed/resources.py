"""What the stages reserve: `auto` worked out from what the cluster has, and refused where it can never fit."""

import math
from dataclasses import dataclass

from r2med_ray.config import ResourcesConfig
from r2med_ray.distributed.session import Session
from r2med_ray.errors import CapacityError

CPUS_FOR_READING = 0.5
"""Left free beside a pool: Ray Data reads with tasks, which would wait for ever behind actors that hold every CPU
(ray issue 44687)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A number of actors or replicas, and what each of them reserves."""

    actors: int
    cpus: float
    gpus: float = 0.0

    @property
    def threads(self) -> int:
        """Threads an actor computes with: the CPUs it was granted."""
        return max(1, math.ceil(self.cpus))

    def describe(self) -> str:
        gpus = f" + {self.gpus:g} GPU" if self.gpus else ""
        return f"{self.actors} × {self.cpus:g} CPU{gpus}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """One pool per stage that reserves anything."""

    encode: Pool
    tokenize: Pool
    search: Pool
    rerank: Pool


def size_pools(resources: ResourcesConfig, session: Session) -> Pools:
    """Size every stage for a cluster.

    Raises:
        CapacityError: a stage asks for more than the cluster has, with both numbers.
    """
    encode, search, rerank = resources.encode, resources.search, resources.rerank
    gpus_of_a_model = 1.0 if session.gpus >= 1 else 0.0
    encode_gpus = gpus_of_a_model if encode.gpus == "auto" else encode.gpus
    rerank_gpus = gpus_of_a_model if rerank.gpus == "auto" else rerank.gpus
    small_machine = session.cpus - CPUS_FOR_READING < 2
    cpus_of_a_model = session.cpus - CPUS_FOR_READING if small_machine else 1.0
    encode_cpus = cpus_of_a_model if encode.cpus == "auto" else encode.cpus
    encode_actors = _fitting(session, encode_cpus, encode_gpus) if encode.actors == "auto" else encode.actors
    search_actors = max(1, int(session.cpus)) if search.actors == "auto" else search.actors
    pools = Pools(
        encode=Pool(actors=encode_actors, cpus=encode_cpus, gpus=encode_gpus),
        tokenize=Pool(actors=_fitting(session, 1.0, 0.0), cpus=min(1.0, session.cpus - CPUS_FOR_READING)),
        search=Pool(actors=search_actors, cpus=search.cpus, gpus=search.gpus),
        rerank=Pool(actors=rerank.replicas, cpus=rerank.cpus, gpus=rerank_gpus),
    )
    _require("encode", pools.encode, session, at_once=1, beside=CPUS_FOR_READING)
    _require("search", pools.search, session, at_once=pools.search.actors)
    _require("rerank", pools.rerank, session, at_once=pools.rerank.actors)
    return pools


def _fitting(session: Session, cpus: float, gpus: float) -> int:
    by_cpu = math.floor((session.cpus - CPUS_FOR_READING) / cpus)
    by_gpu = math.floor(session.gpus / gpus) if gpus else by_cpu
    return max(1, min(by_cpu, by_gpu))


def _require(stage: str, pool: Pool, session: Session, *, at_once: int, beside: float = 0.0) -> None:
    """Refuse what can never be scheduled. An encode pool works with one actor, the others need all of theirs."""
    if pool.cpus > session.cpus_of_largest_node:
        raise CapacityError(
            f"resources.{stage}.cpus is {pool.cpus:g} for one actor; the largest node has "
            f"{session.cpus_of_largest_node:g} CPUs"
        )
    for name, each, extra, there in (("CPU", pool.cpus, beside, session.cpus), ("GPU", pool.gpus, 0.0, session.gpus)):
        wanted = each * at_once + extra
        if wanted > there:
            reading = f" and {extra:g} for reading" if extra else ""
            raise CapacityError(
                f"resources.{stage} reserves {at_once} × {each:g} {name}{reading}, {wanted:g} in all; "
                f"the cluster has {there:g}. Lower resources.{stage} or add nodes"
            )
