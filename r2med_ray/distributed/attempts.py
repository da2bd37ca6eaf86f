"""Counts the processes that ended in the middle of a piece of work.

Ray Data starts such a process again, and has it try the same work again, without end. That is right where a node
went, and wrong where the work itself ends every process that tries it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import ray

from r2med_ray.distributed.nodes import alive_nodes

ENDED = (
    "without an error of its own: native code crashed, or memory ran out. Its last words are in the log of the job"
)
"""How a process ends that neither returns nor raises anything."""


def ids_of_nodes() -> set[str]:
    """Return the ids of the nodes that the cluster has now."""
    return {node["NodeID"] for node in alive_nodes()}


class Count:
    """Knows for each piece of work the processes that began it and did not finish it.

    Args:
        alive: returns the ids of the nodes that are there. A process that went with its node isn't counted.
    """

    def __init__(self, alive: Callable[[], set[str]] = ids_of_nodes) -> None:
        self._alive = alive
        self._nodes: dict[str, list[str]] = {}

    @ray.method
    def begin(self, piece: str, node: str) -> int:
        """Return how many processes ended while they were at a piece that a process on `node` begins."""
        earlier = self._nodes.setdefault(piece, [])
        ended = sum(map(self._alive().__contains__, earlier)) if earlier else 0
        earlier.append(node)
        return ended

    @ray.method
    def finish(self, piece: str) -> None:
        """Forget a piece: a process finished it, or raised an error."""
        self._nodes.pop(piece, None)


class Attempts:
    """The same `Count` for all workers of a stage, in a process of its own. If its node goes, it begins anew."""

    def __init__(self) -> None:
        self._count = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Count).remote()

    @contextmanager
    def at(self, piece: str) -> Iterator[int]:
        """Do a piece of work in the block, and be told how many processes ended while they were at it."""
        ended = ray.get(self._count.begin.remote(piece, ray.get_runtime_context().get_node_id()))
        try:
            yield ended
        finally:
            self._count.finish.remote(piece)
