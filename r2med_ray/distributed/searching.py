"""SEARCH over shard actors: the same hits in the same order as one index over the whole corpus."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import ray

from r2med_ray.blame import note_first_failure
from r2med_ray.distributed.failures import stage_error
from r2med_ray.distributed.shard_actors import ShardActor, deal
from r2med_ray.errors import named
from r2med_ray.first_stage import ShardedFirstStage, Ties
from r2med_ray.protocols import Index
from r2med_ray.retrieval.search import merge_shards, shard_depth
from r2med_ray.settings.pools import Pool
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import CorpusShard, Query, Ranking, Run, Task

Prepared = TypeVar("Prepared")


class ShardedRetriever(Generic[Prepared]):
    """A retriever whose shards live in actors.

    Args:
        tag: tag of its runs.
        prepare: turns queries into what the indexes are asked; stored once, not once per actor.
        load_index: builds or loads the index of one shard, inside an actor; stored once, not once per actor.
        shards: all shards of the corpus.
        pool: how many actors share them, and what each reserves.
        drop_identical_ids: leave out a document whose id is the query's.
        ties: what decides among equal scores at the cut; see `retrieval.file_order`.

    Raises:
        StageError: an actor could not load its shards.
    """

    def __init__(
        self,
        tag: str,
        prepare: Callable[[Sequence[Query]], Prepared],
        load_index: Callable[[CorpusShard], Index[Prepared]],
        shards: Sequence[CorpusShard],
        pool: Pool,
        *,
        drop_identical_ids: bool,
        ties: Ties = "doc id",
    ) -> None:
        self.tag = tag
        self._prepare = prepare
        self._drop_identical_ids = drop_identical_ids
        self._ties: Ties = ties
        self._owner = ShardActor.options(num_cpus=pool.cpus, num_gpus=pool.gpus, max_restarts=2, max_task_retries=2)
        hands = deal(shards, pool.actors)
        self._units = [f"{tag}, {_shards(hand)}" for hand in hands]
        loading = ray.put(load_index)
        # A restarted actor reads its arguments again, and Ray keeps none of them for it (ray issue 53727).
        self._held = [(loading, ray.put(hand)) for hand in hands]
        self._actors: list[Any] = [self._owner.remote(held) for held in self._held]
        self._answers("index", lambda actor: actor.ready.remote())

    def retrieve(self, queries: Sequence[Query], *, k: int) -> Run:
        """Return the k best documents of all shards for every query, without those that it excludes.

        Raises:
            StageError: an actor failed for good.
        """
        prepared = ray.put(self._prepare(queries))
        depth = shard_depth(k, queries, drop_identical_ids=self._drop_identical_ids)
        answers: list[list[Ranking]] = self._answers("search", lambda actor: actor.search.remote(prepared, depth))
        return merge_shards(
            self.tag, queries, answers, k, drop_identical_ids=self._drop_identical_ids, ties=self._ties
        )

    def close(self) -> None:
        """End the actors; what they reserved is free again."""
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []
        self._held = []

    def _answers(self, stage: str, ask: Callable[[Any], "ray.ObjectRef[Any]"]) -> list[Any]:
        """Ask every actor, and return the answers. What an actor fails on is asked of a new one once."""
        pending = [ask(actor) for actor in self._actors]
        answers = []
        for number, reference in enumerate(pending):
            try:
                answers.append(ray.get(reference))
            except ray.exceptions.RayError as error:
                note_first_failure(stage_error(stage, self._units[number], error))
                answers.append(self._ask_anew(stage, number, ask))
        return answers

    def _ask_anew(self, stage: str, number: int, ask: Callable[[Any], "ray.ObjectRef[Any]"]) -> Any:
        ray.kill(self._actors[number])
        self._actors[number] = self._owner.remote(self._held[number])
        try:
            return ray.get(ask(self._actors[number]))
        except ray.exceptions.RayError as error:
            raise stage_error(stage, self._units[number], error) from error


def _shards(hand: Sequence[CorpusShard]) -> str:
    """Return the shards of one actor, for errors."""
    return f"shard {named([str(shard.index) for shard in hand])}"


def open_index(
    store: ArtifactStore, task: Task, first_stage: ShardedFirstStage, device: str, pool: Pool
) -> ShardedRetriever[Any]:
    """Start shard actors over what was made of a task's corpus, all of which must be stored.

    Args:
        store: where it is; every worker must reach it.
        task: the corpus of this task is searched.
        first_stage: the retriever.
        device: what the artefacts were computed on, which is part of their keys.
        pool: the number of shard actors, and what each reserves.

    Raises:
        ArtifactError: something of the corpus is not stored.
        StageError: an actor could not load its shards.
    """
    gathered = first_stage.gather(store, task, device)
    return ShardedRetriever(
        f"{first_stage.label} on {task.name}",
        partial(_prepare, store, task, first_stage, device),
        partial(_load_index, store, task, first_stage, gathered, device),
        task.corpus.shards,
        pool,
        drop_identical_ids=first_stage.drop_identical_ids,
        ties=first_stage.ties,
    )


def _prepare(
    store: ArtifactStore, task: Task, first_stage: ShardedFirstStage, device: str, queries: Sequence[Query]
) -> Any:
    return first_stage.prepare(store, task, queries, device)


def _load_index(
    store: ArtifactStore, task: Task, first_stage: ShardedFirstStage, gathered: Any, device: str, shard: CorpusShard
) -> Index[Any]:
    return first_stage.load_index(store, task, shard, gathered, device)
