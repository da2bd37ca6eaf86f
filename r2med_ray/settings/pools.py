"""What a cluster has, and what each stage reserves of it: plain numbers."""

import math
from dataclasses import dataclass

CPUS_FOR_READING = 0.5
"""Left free beside a pool: Ray Data reads with tasks, which would wait for ever behind actors that hold every CPU
(ray issue 44687)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCapacity:
    """What a cluster has."""

    num_nodes: int
    cpus: float
    gpus: float
    cpus_of_largest_node: float
    memory_gb_of_largest_node: float | None = None
    """None where it is not known."""

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
        """Threads an actor computes with: the CPUs it was granted."""
        return max(1, math.ceil(self.cpus))

    @property
    def device(self) -> str:
        """`cuda` where an actor has a GPU, which the driver need not have."""
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
    """What each worker of an engine reserves; how many there are is up to the model."""


CPUS_OF_AN_INGRESS = 0.25
"""CPUs of the deployment that passes requests to a language model's engines."""
