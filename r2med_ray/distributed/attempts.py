"""Counts the processes that ended in the middle of a piece of work, and how far inside of it the others are.

Ray Data starts such a process again, and has it try the same work again, without end. That is right where a node
went, and wrong where the work itself ends every process that tries it.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import ray

from r2med_ray.activity import counted
from r2med_ray.distributed.nodes import alive_nodes

ENDED = (
    "without an error of its own: native code crashed, or memory ran out. Its last words are in Ray's logs, and in "
    "the log of a job that is run with `--verbose`"
)
"""How a process ends that neither returns nor raises anything."""


def ids_of_nodes() -> set[str]:
    """Return the ids of the nodes that the cluster has now."""
    return {node["NodeID"] for node in alive_nodes()}


TELLS_EVERY_S = 2.0
"""Seconds between two words of a process about how far it is inside of a piece."""

ANSWERS_WITHIN_S = 5.0


class Count:
    """Knows for each piece of work the processes that began it and did not finish it, and how far they are.

    Args:
        alive: returns the ids of the nodes that are there. A process that went with its node isn't counted.
    """

    def __init__(self, alive: Callable[[], set[str]] = ids_of_nodes) -> None:
        self._alive = alive
        self._nodes: dict[str, list[str]] = {}
        self._inside: dict[str, tuple[int, int]] = {}

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
        self._inside.pop(piece, None)

    @ray.method
    def advance(self, piece: str, items: int, tokens: int) -> None:
        """Note how many items of a piece, and tokens of them, a process has done since it began the piece."""
        if piece in self._nodes:
            self._inside[piece] = items, tokens

    @ray.method
    def inside(self, kinds: Collection[str]) -> tuple[int, int]:
        """Return how many items and tokens are done of pieces that are not finished, whose keys have these kinds."""
        of_kinds = [
            done for piece, done in self._inside.items() if piece.rpartition(" ")[2].partition("/")[0] in kinds
        ]
        return sum(items for items, _ in of_kinds), sum(tokens for _, tokens in of_kinds)


class Attempts:
    """The same `Count` for all workers of a stage, in a process of its own. If its node goes, it begins anew."""

    def __init__(self) -> None:
        self._count = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Count).remote()

    @contextmanager
    def at(self, piece: str) -> Iterator[int]:
        """Do a piece of work in the block, and be told how many processes ended while they were at it."""
        ended = ray.get(self._count.begin.remote(piece, ray.get_runtime_context().get_node_id()))
        try:
            with counted(_Told(self._count, piece)):
                yield ended
        finally:
            self._count.finish.remote(piece)

    def inside(self, kinds: Collection[str]) -> tuple[int, int]:
        """Return how many items and tokens are done of pieces that are not finished; 0 while nobody can say it.

        Args:
            kinds: of the keys that the names of the pieces end with.
        """
        try:
            items, tokens = ray.get(self._count.inside.remote(kinds), timeout=ANSWERS_WITHIN_S)
        except ray.exceptions.RayError:  # it starts, or starts again on another node
            return 0, 0
        return items, tokens


class _Told:
    """Tells the `Count` how far this process is inside of a piece, every few seconds."""

    def __init__(self, count: Any, piece: str) -> None:
        self._count = count
        self._piece = piece
        self._items = self._tokens = 0
        self._told = time.monotonic()

    def __call__(self, items: int, tokens: int) -> None:
        self._items += items
        self._tokens += tokens
        now = time.monotonic()
        if now - self._told >= TELLS_EVERY_S:
            self._told = now
            self._count.advance.remote(self._piece, self._items, self._tokens)
