"""What a cluster has, and what each stage reserves of the cluster: plain numbers."""

import math
from dataclasses import dataclass

CPUS_FOR_READING = 0.5
"""CPUs that a pool leaves free. Ray Data reads with tasks; if actors held every CPU, these tasks would wait for ever
(ray issue 44687)."""

_ROUNDING = 1e-9
"""Sums of fractions such as 0.1 fall short of a whole number by less than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What one machine of a cluster has."""

    cpus: float
    gpus: float = 0.0
    memory_gb: float | None = None
    """GB; None if it is not known."""

    accelerator: str | None = None
    """Kind of its GPUs, as Ray names it, e.g. H100; None if it is not known."""

    gpu_memory_gb: float | None = None
    """GB of each of its GPUs; None if it is not known."""

    def places(self, cpus: float, gpus: float) -> int:
        """Return how many actors fit that reserve so much each. At least one of the two numbers is above 0."""
        of_each = [(self.cpus, cpus), (self.gpus, gpus)]
        return min(math.floor(there / wanted + _ROUNDING) for there, wanted in of_each if wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCapacity:
    """What a cluster has, or what it can become."""

    nodes: tuple[Node, ...]
    source: str = "the nodes that are there"
    """Who says so."""

    wait_s: float | None = None
    """Seconds that a stage waits for these nodes to come. None if they are the nodes that are there."""

    @property
    def grows(self) -> bool:
        """Whether these are the nodes that the cluster can have, and not those that it has."""
        return self.wait_s is not None

    @property
    def is_one_machine(self) -> bool:
        """Whether this machine is all that there is, now and later."""
        return self.num_nodes == 1 and not self.grows

    @property
    def num_nodes(self) -> int:
        return len(self.nodes)

    @property
    def cpus(self) -> float:
        return sum(node.cpus for node in self.nodes)

    @property
    def gpus(self) -> float:
        return sum(node.gpus for node in self.nodes)

    @property
    def memory_gb(self) -> float | None:
        """GB of all nodes; None if it is not known of every node."""
        known = [node.memory_gb for node in self.nodes if node.memory_gb is not None]
        return sum(known) if len(known) == len(self.nodes) else None

    @property
    def memory_gb_of_largest_node(self) -> float | None:
        """GB; None if it is not known of any node."""
        return max((node.memory_gb for node in self.nodes if node.memory_gb is not None), default=None)

    @property
    def gpu_memory_gb(self) -> float | None:
        """GB of the largest GPU; None if it is not known of every node with a GPU."""
        sizes = [node.gpu_memory_gb for node in self.nodes if node.gpus]
        known = [size for size in sizes if size is not None]
        return max(known) if known and len(known) == len(sizes) else None

    def most_cpus(self, gpus: float = 0.0) -> float:
        """Return the CPUs of the largest node among those with at least so many GPUs; 0 if there is none."""
        return max((node.cpus for node in self.nodes if node.gpus >= gpus), default=0.0)

    @property
    def accelerator(self) -> str | None:
        """Kind of the GPUs of the largest node with GPUs of a known kind; None if there is none."""
        known = [node for node in self.nodes if node.gpus and node.accelerator]
        return max(known, key=lambda node: node.gpus).accelerator if known else None

    def most_gpus(self) -> float:
        """Return the GPUs of the node with the most."""
        return max((node.gpus for node in self.nodes), default=0.0)

    def places(self, cpus: float, gpus: float) -> int:
        """Return how many actors fit on all nodes. An actor is on one node."""
        return sum(node.places(cpus, gpus) for node in self.nodes)

    def describe(self) -> str:
        upper = "up to " if self.grows else ""
        return f"{upper}{self.num_nodes} node(s), {self.cpus:g} CPUs, {self.gpus:g} GPUs"


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
