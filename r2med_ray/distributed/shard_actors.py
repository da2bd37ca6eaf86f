"""Actors that own index shards. An actor that is started again loads its shards again from the store."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import ray

from r2med_ray.corpora import CorpusShard
from r2med_ray.protocols import Index
from r2med_ray.ranking import merge
from r2med_ray.ranking_arrays import RankingArrays
from r2med_ray.retrieval.search import score_candidates, search_shards
from r2med_ray.types import DocId

Prepared = TypeVar("Prepared")

Hand: TypeAlias = "tuple[ray.ObjectRef[Any], ray.ObjectRef[list[CorpusShard]]]"
"""References to what loads the index of a shard, and to the shards that one actor holds together.

Whoever asks an actor must hold them: Ray keeps none of them for an actor that it starts again (ray issue 53727)."""


class ShardOwner(Generic[Prepared]):
    """Holds the indexes of hands of shards and answers searches over them. A hand is loaded when it is asked for."""

    def __init__(self) -> None:
        self._loaded: dict[Any, list[Index[Prepared]]] = {}

    @ray.method
    def ready(self, hand: Hand) -> int:
        """Return how many shards of a hand are loaded; answers once all of them are."""
        return len(self._indexes(hand))

    @ray.method
    def search(self, hand: Hand, queries: Prepared, k: int) -> RankingArrays:
        """Return the best k of the shards of a hand for every query."""
        return search_shards(self._indexes(hand), queries, k)

    @ray.method
    def score(self, hand: Hand, queries: Prepared, candidates: Sequence[Sequence[DocId]]) -> RankingArrays:
        """Return the candidates of every query that the shards of a hand have, with their scores."""
        per_shard = [score_candidates(index, queries, candidates) for index in self._indexes(hand)]
        return RankingArrays.of(
            merge(rankings, len(wanted))
            for wanted, rankings in zip(candidates, zip(*per_shard, strict=True), strict=True)
        )

    def _indexes(self, hand: Hand) -> list[Index[Prepared]]:
        _, key = hand
        if key not in self._loaded:
            load_index: Callable[[CorpusShard], Index[Prepared]]
            shards: Sequence[CorpusShard]
            load_index, shards = ray.get(list(hand))
            self._loaded[key] = [load_index(shard) for shard in shards]
        return self._loaded[key]


ShardActor = ray.remote(ShardOwner)


def deal(shards: Sequence[CorpusShard], num_actors: int) -> list[list[CorpusShard]]:
    """Deal the shards out to actors, largest first to the one with the fewest rows; no actor is left empty."""
    hands: list[list[CorpusShard]] = [[] for _ in range(min(num_actors, len(shards)))]
    for shard in sorted(shards, key=lambda shard: (-shard.num_rows, shard.index)):
        min(hands, key=lambda hand: sum(held.num_rows for held in hand)).append(shard)
    return hands
