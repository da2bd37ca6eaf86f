"""Demands that are served together: one batch per encoder, per open index, per language model and per scorer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from r2med_ray.protocols import ShardedStage
from r2med_ray.storage.artifacts import ArtifactStore, fingerprint
from r2med_ray.types import Task
from r2med_ray.workbench.lacks import Lack, LackingRun, LackingScores, LackingTexts
from r2med_ray.workbench.ledger import Group, Need
from r2med_ray.workbench.parts import Part
from r2med_ray.workbench.runner import QuerySet, Runner

Kind: TypeAlias = Literal["lists", "search", "prepare", "score", "write"]

START_RANK: dict[Kind, int] = {"lists": 0, "search": 1, "prepare": 2, "score": 3, "write": 4}
"""What starts quickly before what starts slowly: an index in seconds, an engine in minutes."""


class Place(NamedTuple):
    """Where a demand is served."""

    kind: Kind
    name: str


@dataclass(slots=True)
class Batch:
    """What waits at one place, and who else is on the way to it."""

    place: Place
    need: Need
    lacks: list[Lack] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    coming: set[str] = field(default_factory=set)
    corpora: dict[str, tuple[Task, ShardedStage]] = field(default_factory=dict)
    """Of a batch that prepares: the corpora that are not prepared yet, by name of their index."""

    def group(self, passed_over: int) -> Group:
        """Return it as the ledger sees it."""
        return Group(
            name=self.place.name,
            need=self.need,
            waiting=frozenset(self.waiting),
            coming=frozenset(self.coming - self.waiting),
            start_rank=START_RANK[self.place.kind],
            passed_over=passed_over,
        )


class Batches:
    """Sorts what parts wait for and expect into batches.

    Args:
        store: tells what is prepared.
        runner: tells what each place reserves.
    """

    def __init__(self, store: ArtifactStore, runner: Runner) -> None:
        self._store = store
        self._runner = runner
        self._prepared: dict[str, bool] = {}
        self._index_names: dict[tuple[str, str, ShardedStage], str] = {}
        self._encodes_queries: dict[tuple[str, ShardedStage], bool] = {}

    def sort(self, parts: Iterable[Part[Any]]) -> dict[str, Batch]:
        """Return the batches by the name of their place; those that nobody waits for are among them."""
        batches: dict[str, Batch] = {}
        for part in parts:
            for lack in part.lacks:
                batch = self._batch(batches, self._place(lack), lack)
                batch.lacks.append(lack)
                batch.waiting.add(part.name)
                if batch.place.kind == "prepare" and isinstance(lack, LackingRun):
                    task, stage = lack.find.task, lack.find.stage
                    assert stage.work != "nothing"
                    self._add_corpus(batch, task, stage)
                    self._at(batches, self._index(task, stage), self._runner.searching(stage)).coming.add(part.name)
            self._add_expected(batches, part)
        return batches

    def query_sets(self, batch: Batch) -> list[QuerySet]:
        """Return the queries of a batch that have to be prepared."""
        return [
            QuerySet(lack.find.task, lack.find.stage, lack.find.queries)
            for lack in batch.lacks
            if isinstance(lack, LackingRun) and lack.find.stage.work != "nothing"
        ]

    def note_prepared(self, corpora: Iterable[str], lacks: Iterable[Lack] = ()) -> None:
        """Remember which corpora are prepared, by name of their index, and for which demands the queries are."""
        self._prepared.update(dict.fromkeys(corpora, True))
        for lack in lacks:
            if isinstance(lack, LackingRun):
                lack.queries_prepared = True

    def _add_expected(self, batches: dict[str, Batch], part: Part[Any]) -> None:
        for task, stage in part.expects.searches:
            if stage.work == "nothing":
                continue
            index = self._index(task, stage)
            self._at(batches, index, self._runner.searching(stage)).coming.add(part.name)
            if self._has_query_vectors(task, stage) or not self._is_prepared(index, task, stage):
                batch = self._at(batches, self._preparing(stage), self._runner.preparing(stage))
                batch.coming.add(part.name)
                self._add_corpus(batch, task, stage)
        for model in part.expects.models:
            place = Place("write", f"model {self._runner.engine(model)}")
            self._at(batches, place, self._runner.writing(model)).coming.add(part.name)
        for scorer in part.expects.scorers:
            self._at(batches, self._scorer(scorer), self._runner.scoring(scorer)).coming.add(part.name)

    def _place(self, lack: Lack) -> Place:
        match lack:
            case LackingTexts():
                return Place("write", f"model {self._runner.engine(lack.ask.model)}")
            case LackingScores():
                return self._scorer(lack.score.scorer)
            case LackingRun():
                return self._place_of_search(lack)
        raise AssertionError(f"{lack!r} is no lack")

    def _place_of_search(self, lack: LackingRun) -> Place:
        find = lack.find
        if find.stage.work == "nothing":
            return Place("lists", "lists")
        index = self._index(find.task, find.stage)
        if lack.queries_prepared is None:
            key = find.stage.queries_key(find.task.name, find.queries, self._runner.device)
            lack.queries_prepared = key is None or self._store.find(key) is not None
        if lack.queries_prepared and self._is_prepared(index, find.task, find.stage):
            return index
        return self._preparing(find.stage)

    def _batch(self, batches: dict[str, Batch], place: Place, lack: Lack) -> Batch:
        need = Need()
        match lack:
            case LackingTexts():
                need = self._runner.writing(lack.ask.model)
            case LackingScores():
                need = self._runner.scoring(lack.score.scorer)
            case LackingRun() if lack.find.stage.work != "nothing":
                reserves = self._runner.preparing if place.kind == "prepare" else self._runner.searching
                need = reserves(lack.find.stage)
        return self._at(batches, place, need)

    def _at(self, batches: dict[str, Batch], place: Place, need: Need) -> Batch:
        return batches.setdefault(place.name, Batch(place, need))

    def _add_corpus(self, batch: Batch, task: Task, stage: ShardedStage) -> None:
        index = self._index(task, stage)
        if not self._is_prepared(index, task, stage):
            batch.corpora.setdefault(index.name, (task, stage))

    def _is_prepared(self, index: Place, task: Task, stage: ShardedStage) -> bool:
        if index.name not in self._prepared:
            device = self._runner.device
            keys = (stage.shard_key(task.name, task.corpus, shard, device) for shard in task.corpus.shards)
            self._prepared[index.name] = all(self._store.find(key) is not None for key in keys)
        return self._prepared[index.name]

    def _has_query_vectors(self, task: Task, stage: ShardedStage) -> bool:
        key = (task.name, stage)
        if key not in self._encodes_queries:
            of_none = stage.queries_key(task.name, (), self._runner.device)
            self._encodes_queries[key] = of_none is not None
        return self._encodes_queries[key]

    def _index(self, task: Task, stage: ShardedStage) -> Place:
        key = (task.name, task.corpus.digest, stage)
        if key not in self._index_names:
            digest = fingerprint(dict(stage.inputs(task, self._runner.device)))[:12]
            self._index_names[key] = f"index of {task.name} for {stage.label} {digest}"
        return Place("search", self._index_names[key])

    def _preparing(self, stage: ShardedStage) -> Place:
        kind = type(stage).__name__
        digest = fingerprint([kind, stage.artifact_group])[:12]
        return Place("prepare", f"preparing {stage.artifact_label} {digest}")

    def _scorer(self, scorer: Any) -> Place:
        digest = fingerprint(dict(self._runner.scoring_inputs(scorer)))[:12]
        return Place("score", f"scorer {scorer.name} {digest}")


def waited_for(batches: Iterable[Batch]) -> Sequence[Batch]:
    """Return the batches that a part waits for."""
    return [batch for batch in batches if batch.lacks]


def wanted_by(batches: dict[str, Batch]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the name of each place, and all parts that wait for it or are on the way to it."""
    for name, batch in batches.items():
        yield name, frozenset(batch.waiting | batch.coming)
