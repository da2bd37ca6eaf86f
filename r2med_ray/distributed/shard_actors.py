"""Actors that own index shards. An actor that dies is restarted and loads its shards again from the store."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import ray

from r2med_ray.protocols import Index
from r2med_ray.ranking import merge
from r2med_ray.types import CorpusShard, Ranking

Prepared = TypeVar("Prepared")


class ShardOwner(Generic[Prepared]):
    """Loads the indexes of some shards and answers searches over them.

    Args:
        held: references to what loads the index of a shard, and to the shards. Whoever starts the actor must hold
            them as long as it lives: a restart reads them again.
    """

    def __init__(self, held: "Sequence[ray.ObjectRef[Any]]") -> None:
        load_index: Callable[[CorpusShard], Index[Prepared]]
        shards: Sequence[CorpusShard]
        load_index, shards = ray.get(list(held))
        self._indexes = [load_index(shard) for shard in shards]

    @ray.method
    def ready(self) -> int:
        """Return how many shards are loaded; answers once all of them are."""
        return len(self._indexes)

    @ray.method
    def search(self, queries: Prepared, k: int) -> list[Ranking]:
        """Return the best k of the actor's shards for every query."""
        per_shard = [index.search(queries, k) for index in self._indexes]
        return [merge(rankings, k) for rankings in zip(*per_shard, strict=True)]


ShardActor = ray.remote(ShardOwner)


def deal(shards: Sequence[CorpusShard], num_actors: int) -> list[list[CorpusShard]]:
    """Deal the shards out to actors, largest first to the one with the fewest rows; no actor is left empty."""
    hands: list[list[CorpusShard]] = [[] for _ in range(min(num_actors, len(shards)))]
    for shard in sorted(shards, key=lambda shard: (-shard.num_rows, shard.index)):
        min(hands, key=lambda hand: sum(held.num_rows for held in hand)).append(shard)
    return hands
