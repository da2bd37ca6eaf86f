"""Demands that are served together: one batch per encoder, per open index, per language model and per scorer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.first_stages.bad_documents import find_shards
from r2med_ray.first_stages.preparation import QuerySet
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task
from r2med_ray.workbench.answers import Answer, RunAnswer, ScoresAnswer, TextsAnswer
from r2med_ray.workbench.ledger import Group
from r2med_ray.workbench.parts import Part
from r2med_ray.workbench.places import LISTS, START_RANK, Place, Places
from r2med_ray.workbench.runner import Runner


@dataclass(slots=True)
class Batch:
    """What waits at one place, and who else is on the way to it."""

    place: Place
    answers: list[Answer] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    coming: set[str] = field(default_factory=set)
    corpora: dict[str, tuple[Task, ShardedFirstStage]] = field(default_factory=dict)
    """At a place that prepares: the corpora that are not prepared yet, by the name of their index."""

    def group(self, passed_over: int) -> Group:
        """Return it as the ledger sees it."""
        return Group(
            name=self.place.name,
            need=self.place.need,
            waiting=frozenset(self.waiting),
            coming=frozenset(self.coming - self.waiting),
            start_rank=START_RANK[self.place.kind],
            passed_over=passed_over,
        )

    @property
    def query_sets(self) -> list[QuerySet]:
        """The queries that have to be prepared."""
        return [
            QuerySet(answer.find.task, answer.find.first_stage, answer.find.queries)
            for answer in self.answers
            if isinstance(answer, RunAnswer) and answer.find.first_stage.work != "nothing"
        ]


class Batches:
    """Sorts what parts wait for and expect into batches.

    Args:
        store: tells what is prepared.
        runner: tells what each place reserves.
    """

    def __init__(self, store: ArtifactStore, runner: Runner) -> None:
        self._store = store
        self._device = runner.device
        self._places = Places(runner)
        self._prepared: dict[str, bool] = {}
        self._makes_of_queries: dict[str, bool] = {}

    def sort(self, parts: Iterable[Part[Any]]) -> dict[str, Batch]:
        """Return the batches by the name of their place; those that nobody waits for are among them."""
        batches: dict[str, Batch] = {}
        for part in parts:
            for answer in part.waits_for:
                batch = _at(batches, self._place(answer))
                batch.answers.append(answer)
                batch.waiting.add(part.name)
                if batch.place.kind == "prepare" and isinstance(answer, RunAnswer):
                    assert answer.find.first_stage.work != "nothing"
                    self._come_to_search(batches, part.name, answer.find.task, answer.find.first_stage)
            for task, first_stage in part.expects.searches:
                if first_stage.work != "nothing":
                    self._come_to_search(batches, part.name, task, first_stage)
            for model in part.expects.models:
                _at(batches, self._places.model(model)).coming.add(part.name)
            for scorer in part.expects.scorers:
                _at(batches, self._places.scorer(scorer)).coming.add(part.name)
        return batches

    def note_prepared(self, corpora: Iterable[str], answers: Iterable[Answer] = ()) -> None:
        """Remember which corpora are prepared, by name of their index, and for which demands the queries are."""
        self._prepared.update(dict.fromkeys(corpora, True))
        for answer in answers:
            if isinstance(answer, RunAnswer):
                answer.queries_prepared = True

    def _come_to_search(
        self, batches: dict[str, Batch], part: str, task: Task, first_stage: ShardedFirstStage
    ) -> None:
        """Note that a part is on its way to an index, and to what has to be prepared for it."""
        index = self._places.index(task, first_stage)
        _at(batches, index).coming.add(part)
        is_prepared = self._is_prepared(index, task, first_stage)
        if is_prepared and not self._has_query_artifacts(index, task, first_stage):
            return
        batch = _at(batches, self._places.preparing(first_stage))
        batch.coming.add(part)
        if not is_prepared:
            batch.corpora.setdefault(index.name, (task, first_stage))

    def _place(self, answer: Answer) -> Place:
        match answer:
            case TextsAnswer():
                return self._places.model(answer.ask.model)
            case ScoresAnswer():
                return self._places.scorer(answer.score.scorer)
            case RunAnswer():
                return self._place_of_search(answer)
        raise AssertionError(f"{answer!r} has no place")

    def _place_of_search(self, answer: RunAnswer) -> Place:
        task, first_stage = answer.find.task, answer.find.first_stage
        if first_stage.work == "nothing":
            return LISTS
        index = self._places.index(task, first_stage)
        if answer.queries_prepared is None:
            keys = [first_stage.queries_key(task.name, block, self._device) for block in blocks(answer.find.queries)]
            answer.queries_prepared = all(key is None or self._store.find(key) is not None for key in keys)
        is_prepared = self._is_prepared(index, task, first_stage)
        return index if answer.queries_prepared and is_prepared else self._places.preparing(first_stage)

    def _is_prepared(self, index: Place, task: Task, first_stage: ShardedFirstStage) -> bool:
        if index.name not in self._prepared:
            found = find_shards(self._store, first_stage, task, task.corpus.prepared, self._device)
            self._prepared[index.name] = all(artifact is not None for artifact in found)
        return self._prepared[index.name]

    def _has_query_artifacts(self, index: Place, task: Task, first_stage: ShardedFirstStage) -> bool:
        """Say whether anything is made of queries before such a search."""
        if index.name not in self._makes_of_queries:
            of_none = first_stage.queries_key(task.name, (), self._device)
            self._makes_of_queries[index.name] = of_none is not None
        return self._makes_of_queries[index.name]


def waited_for(batches: Iterable[Batch]) -> Sequence[Batch]:
    """Return the batches that a part waits for."""
    return [batch for batch in batches if batch.answers]


def wanted_by(batches: dict[str, Batch]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the name of each place, and all parts that wait for it or are on the way to it."""
    for name, batch in batches.items():
        yield name, frozenset(batch.waiting | batch.coming)


def _at(batches: dict[str, Batch], place: Place) -> Batch:
    return batches.setdefault(place.name, Batch(place))
