"""What a cluster has, and what each stage reserves of the cluster: plain numbers."""

import math
from dataclasses import dataclass

CPUS_FOR_READING = 0.5
"""CPUs that a pool leaves free. Ray Data reads with tasks; if actors held every CPU, these tasks would wait for ever
(ray issue 44687)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCapacity:
    """What a cluster has."""

    num_nodes: int
    cpus: float
    gpus: float
    cpus_of_largest_node: float
    memory_gb_of_largest_node: float | None = None
    """GB; None if it is not known."""

    def describe(self) -> str:
        return f"{self.num_nodes} node(s), {self.cpus:g} CPUs, {self.gpus:g} GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A number of actors or replicas, and what each of them reserves."""

    actors: int
    cpus: float
    gpus: float = 0.0

    @property
    def threads(self) -> int:
        """Threads that an actor computes with: as many as its CPUs, rounded up."""
        return max(1, math.ceil(self.cpus))

    @property
    def device(self) -> str:
        """`cuda` if an actor has a GPU, else `cpu`. The driver itself may have no GPU."""
        return "cuda" if self.gpus else "cpu"

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
    language_model: Pool
    """What each worker of an engine reserves. The model's row says how many workers there are."""


CPUS_OF_AN_INGRESS = 0.25
"""CPUs of the deployment that passes requests to a language model's engines."""
