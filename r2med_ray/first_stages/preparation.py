"""What is still to be made before a search, and how one piece of it is made and stored.

Workers of a cluster and a single process call the same functions, so they store the same bytes. Work is listed by the
key of its artefact: what two tasks or two first stages share is made once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from r2med_ray.corpus.loading import ShardRows
from r2med_ray.cuts import to_json
from r2med_ray.errors import R2MedError, StageError
from r2med_ray.first_stage import Computing, MadeBy, Maker, ShardedFirstStage
from r2med_ray.first_stages.stored_cuts import CUTS, SAME, cuts_made, same_vectors
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import CorpusShard, Query, Task

STAGES: Mapping[MadeBy, str] = {"encode": "encode", "ask a service": "encode", "tokenize": "tokenize"}
"""Work → the stage of the flow that errors and reports name."""

Corpora: TypeAlias = Sequence[tuple[Task, ShardedFirstStage]]
"""Tasks, each with a first stage that is going to search its corpus. All are of one kind and one `artifact_group`."""


class QuerySet(NamedTuple):
    """Queries that a first stage is asked together."""

    task: Task
    first_stage: ShardedFirstStage
    queries: Sequence[Query]


Questions: TypeAlias = Sequence[QuerySet]
"""Query sets, each of another task or first stage; the first stages as in `Corpora`."""


class Work(Protocol):
    """One artefact that is to be made."""

    @property
    def key(self) -> ArtifactKey: ...

    @property
    def num_documents(self) -> int:
        """How many documents or queries it is made of."""
        ...


W = TypeVar("W", bound=Work)


class Left(NamedTuple, Generic[W]):
    """The work that is left to do."""

    work: list[W]
    stored: int
    """How many artefacts the store has already."""

    @property
    def num_documents(self) -> int:
        """How many documents or queries are left."""
        return sum(item.num_documents for item in self.work)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardWork:
    """One shard of which an artefact is to be made."""

    task: str
    shard: CorpusShard
    key: ArtifactKey
    """Names what is made of it."""

    skip_rows: tuple[int, ...] = ()
    """Rows of the shard that are not read."""

    @property
    def unit(self) -> str:
        return f"{self.task}, shard {self.shard.index}"

    @property
    def num_documents(self) -> int:
        return self.shard.num_rows - len(self.skip_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWork:
    """Queries of one task of which an artefact is to be made."""

    task: str
    queries: tuple[Query, ...]
    rules: Rules
    """The rules of the first stage that asks, which may differ from those of others with the same model."""

    key: ArtifactKey

    @property
    def unit(self) -> str:
        return f"the queries of {self.task}"

    @property
    def num_documents(self) -> int:
        return len(self.queries)


def shards_left(store: ArtifactStore, corpora: Corpora, device: str) -> Left[ShardWork]:
    """Return the shards whose artefact isn't stored, each artefact once, in the order of the tasks."""
    return _left(
        store,
        (
            ShardWork(
                task=task.name,
                shard=shard,
                key=first_stage.shard_key(task.name, task.corpus, shard, device),
                skip_rows=first_stage.skip_rows(task.corpus, shard),
            )
            for task, first_stage in corpora
            for shard in task.corpus.shards
        ),
    )


def queries_left(store: ArtifactStore, questions: Questions, device: str) -> Left[QueryWork] | None:
    """Return the queries whose artefact isn't stored, each artefact once; None where nothing is made of queries."""
    keys = [first_stage.queries_key(task.name, queries, device) for task, first_stage, queries in questions]
    work = [
        QueryWork(task=task.name, queries=tuple(queries), rules=first_stage.rules, key=key)
        for (task, first_stage, queries), key in zip(questions, keys, strict=True)
        if key is not None
    ]
    return _left(store, work) if work else None


def make_shard(store: ArtifactStore, maker: Maker, work: ShardWork, shard: ShardRows) -> dict[str, int]:
    """Make and store the artefact of one shard.

    Returns:
        `documents`, and what a service counted.

    Raises:
        DataError: a number is not finite; names the documents.
    """
    maker.take_cuts()  # whatever a shard that failed has left
    tables = maker.make_shard(work.task, shard.documents, shard.rows)
    _store(store, work.key, tables, {CUTS: to_json(cuts_made(maker))})
    return {"documents": len(shard.documents), **maker.take_usage()}


def make_queries(store: ArtifactStore, maker: Maker, work: QueryWork) -> dict[str, int]:
    """Make and store the artefact of one set of queries.

    Returns:
        `documents`, which is the number of queries, and what a service counted.

    Raises:
        DataError: a number is not finite; names the query.
    """
    maker.take_cuts()  # whatever queries that failed have left
    tables = maker.make_queries(work.task, work.queries, work.rules)
    counted = {CUTS: to_json(cuts_made(maker)), SAME: same_vectors(work.queries, tables)}
    _store(store, work.key, tables, counted)
    return {"documents": len(work.queries), **maker.take_usage()}


def make_all_queries(
    store: ArtifactStore, first_stage: ShardedFirstStage, computing: Computing, work: Sequence[QueryWork]
) -> Iterator[dict[str, int]]:
    """Make and store the artefacts of sets of queries with one maker, and yield what `make_queries` returns for each.

    Raises:
        StageError: a set failed; the sets before it stay.
    """
    if not work:
        return
    maker = first_stage.load(store, computing)
    for item in work:
        with failing_as(STAGES[first_stage.work], item.unit):
            numbers = make_queries(store, maker, item)
        yield numbers


@contextmanager
def failing_as(arrow: str, unit: str) -> Iterator[None]:
    """Name the unit of work in any error of this package that the block raises.

    Raises:
        StageError: the block raised an error of this package.
    """
    try:
        yield
    except R2MedError as error:
        raise StageError(arrow, unit, str(error)) from error


def _store(
    store: ArtifactStore, key: ArtifactKey, tables: Mapping[str, pa.Table], counted: Mapping[str, Json]
) -> None:
    with store.create(key) as writer:
        writer.attributes.update({name: count for name, count in counted.items() if count is not None})
        for name, table in tables.items():
            writer.write_table(name, table)


def _left(store: ArtifactStore, work: Iterable[W]) -> Left[W]:
    distinct: dict[str, W] = {}
    for item in work:
        distinct.setdefault(item.key.name, item)
    missing = [item for item in distinct.values() if store.find(item.key) is None]
    return Left(missing, len(distinct) - len(missing))
