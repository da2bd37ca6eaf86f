"""SEARCH over shard actors: the same hits in the same order as one index over the whole corpus."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import ray
import ray._private.state

from r2med_ray.blame import note_first_failure
from r2med_ray.corpora import CorpusShard
from r2med_ray.distributed.failures import stage_error
from r2med_ray.distributed.session import capacity_now
from r2med_ray.distributed.shard_actors import Hand, ShardActor, deal
from r2med_ray.errors import StageError, named
from r2med_ray.first_stage import ShardedFirstStage, Ties
from r2med_ray.protocols import Index
from r2med_ray.ranking_arrays import RankingArrays
from r2med_ray.retrieval.search import Among, Merging, ReadWhenSearched
from r2med_ray.settings.pools import Pool
from r2med_ray.settings.resources import NO_PROGRESS_TIMEOUT_S
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Query, Run, Task
from r2med_ray.waiting import LOOKS_EVERY_S, Wait

logger = logging.getLogger(__name__)

Prepared = TypeVar("Prepared")


Ask: TypeAlias = "Callable[[_Part], ray.ObjectRef[Any]]"

REPLACED_WITHIN_S = 60.0
"""Seconds within which an actor that lost its node should have another. Then other actors take its shards."""


@dataclass(slots=True, eq=False)
class _Part:
    """Shards that one actor holds together."""

    unit: str
    """The shards, for errors."""

    shards: list[CorpusShard]
    hand: Hand
    actor: Any


class ShardedRetriever(Generic[Prepared]):
    """A retriever whose shards live in actors.

    An actor that dies is started again, on any node. If no node has room for it, the other actors take its shards.

    Args:
        tag: tag of its runs.
        prepare: turns queries into what the indexes are asked; stored once, not once per actor.
        load_index: builds or loads the index of one shard, inside an actor; stored once, not once per actor.
        shards: all shards of the corpus.
        pool: how many actors share them, and what each reserves.
        drop_identical_ids: leave out a document whose id is the query's.
        ties: what decides among equal scores at the cut; see `retrieval.file_order`.
        rescore_multiplier: see `retrieval.search.PlainRetriever`.
        one_at_a_time: whether an actor reads its shards one by one for every search, and holds none.
        no_progress_timeout_s: loading or a search fails when no actor has answered for this long.

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
        rescore_multiplier: int = 0,
        one_at_a_time: bool = False,
        no_progress_timeout_s: float = NO_PROGRESS_TIMEOUT_S,
    ) -> None:
        self.tag = tag
        self.one_at_a_time = one_at_a_time
        self._prepare = prepare
        self._merging = Merging(tag, drop_identical_ids, ties, rescore_multiplier)
        self._pool = pool
        self._timeout_s = no_progress_timeout_s
        self._owner = ShardActor.options(num_cpus=pool.cpus, num_gpus=pool.gpus, max_restarts=2, max_task_retries=2)
        self._loading = ray.put(partial(_read_later, load_index) if one_at_a_time else load_index)
        self._parts = [self._part(hand, self._owner.remote()) for hand in deal(shards, pool.actors)]
        self._answers("index", lambda part: part.actor.ready.remote(part.hand))

    def retrieve(self, queries: Sequence[Query], *, k: int, among: Among | None = None) -> Run:
        """Return the k best documents of all shards for every query, without those that it excludes.

        Args:
            queries: the questions.
            k: documents per query.
            among: query_id → the only documents that are ranked; None if all are looked through.

        Raises:
            StageError: an actor failed for good.
        """
        prepared = ray.put(self._prepare(queries))

        def ask(method: str, wanted: Any) -> list[RankingArrays]:
            return self._answers(
                "search", lambda part: getattr(part.actor, method).remote(part.hand, prepared, wanted)
            )

        return self._merging.ranked(
            queries, k, among, search=partial(ask, "search"), score=lambda ids: ask("score", ray.put(ids))
        )

    def close(self) -> None:
        """End the actors; what they reserved is free again."""
        for part in self._parts:
            ray.kill(part.actor)
        self._parts = []

    def _part(self, shards: list[CorpusShard], actor: Any) -> _Part:
        return _Part(f"{self.tag}, {_shards(shards)}", shards, (self._loading, ray.put(shards)), actor)

    def _answers(self, stage: str, ask: Ask) -> list[Any]:
        """Ask for every part, and return the answers in any order. What fails is asked of another actor once."""
        asked = {ask(part): part for part in self._parts}
        failed: list[_Part] = []
        homeless: dict[Any, float] = {}
        answers: list[Any] = []
        wait = Wait(self._timeout_s)
        while asked:
            done, _ = ray.wait(list(asked), timeout=LOOKS_EVERY_S)
            for reference in done:
                part = asked.pop(reference)
                wait.renew()
                try:
                    answers.append(ray.get(reference))
                except ray.exceptions.RayError as error:
                    failure = stage_error(stage, part.unit, error)
                    if part in failed:
                        raise failure from error
                    note_first_failure(failure)
                    failed.append(part)
                    ray.kill(part.actor)
                    part.actor = self._owner.remote()
                    asked[ask(part)] = part
            if not done:
                self._deal_again(asked, homeless, ask)
            if not wait.goes_on(f"{stage}: {self._whose(asked)}"):
                raise StageError(stage, self._whose(asked), self._too_late())
        return answers

    def _deal_again(self, asked: "dict[ray.ObjectRef[Any], _Part]", homeless: dict[Any, float], ask: Ask) -> None:
        """Give the shards of actors that have no node for too long to those that have one, and ask for them there.

        Args:
            asked: what is waited for; changed.
            homeless: actor → when it was first seen without a node; changed.
            ask: asks for a part.
        """
        now = time.monotonic()
        settled = list({part.actor: None for part in self._parts if _has_node(part.actor)})
        for reference, part in list(asked.items()):
            if part.actor in settled:
                homeless.pop(part.actor, None)
                continue
            if not settled or now - homeless.setdefault(part.actor, now) < REPLACED_WITHIN_S:
                continue
            logger.warning("%s: no node has room for its actor; %d other actors take over", part.unit, len(settled))
            ray.kill(part.actor)
            del asked[reference]
            hands = deal(part.shards, len(settled))
            taken = [self._part(hand, actor) for hand, actor in zip(hands, settled, strict=False)]
            self._parts = [other for other in self._parts if other is not part] + taken
            asked.update({ask(new): new for new in taken})

    def _whose(self, asked: "dict[ray.ObjectRef[Any], _Part]") -> str:
        shards = (shard for part in asked.values() for shard in part.shards)
        return f"{self.tag}, {_shards(sorted(shards, key=lambda shard: shard.index))}"

    def _too_late(self) -> str:
        lost = sum(not _has_node(part.actor) for part in self._parts)
        without = f"; {lost} of {self._pool.describe()} have no node" if lost else ""
        return (
            f"no answer for {self._timeout_s:g} s, the limit `resources.no_progress_timeout_s`{without}. "
            f"The cluster has {capacity_now().describe()}"
        )


def _has_node(actor: Any) -> bool:
    """Return whether an actor runs. If not, it has not got a node yet, or has lost its node."""
    return bool(ray._private.state.actors(actor._actor_id.hex())["State"] == "ALIVE")


def _shards(shards: Sequence[CorpusShard]) -> str:
    """Return the names of shards, for errors."""
    return f"shard {named([str(shard.index) for shard in shards])}"


def open_index(
    store: ArtifactStore,
    task: Task,
    first_stage: ShardedFirstStage,
    device: str,
    pool: Pool,
    *,
    one_at_a_time: bool = False,
    no_progress_timeout_s: float = NO_PROGRESS_TIMEOUT_S,
) -> ShardedRetriever[Any]:
    """Start shard actors over what was made of a task's corpus, all of which must be stored.

    Args:
        store: where it is; every worker must reach it.
        task: the corpus of this task is searched.
        first_stage: the retriever.
        device: what the artefacts were computed on, which is part of their keys.
        pool: the number of shard actors, and what each reserves.
        one_at_a_time: whether each actor reads its shards one by one for every search, and holds none.
        no_progress_timeout_s: see `ShardedRetriever`.

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
        one_at_a_time=one_at_a_time,
        drop_identical_ids=first_stage.drop_identical_ids,
        ties=first_stage.ties,
        rescore_multiplier=first_stage.rescore_multiplier,
        no_progress_timeout_s=no_progress_timeout_s,
    )


def _prepare(
    store: ArtifactStore, task: Task, first_stage: ShardedFirstStage, device: str, queries: Sequence[Query]
) -> Any:
    return first_stage.prepare(store, task, queries, device)


def _load_index(
    store: ArtifactStore, task: Task, first_stage: ShardedFirstStage, gathered: Any, device: str, shard: CorpusShard
) -> Index[Any]:
    return first_stage.load_index(store, task, shard, gathered, device)


def _read_later(load_index: Callable[[CorpusShard], Index[Prepared]], shard: CorpusShard) -> Index[Prepared]:
    return ReadWhenSearched(partial(load_index, shard))
