"""Finds task, system, query and document by name; an error gives the nearest valid name. Nothing is written."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from tempfile import TemporaryDirectory
from typing import TypeVar

from r2med_ray.corpus.catalog import TaskRow
from r2med_ray.corpus.loading import fetch_documents, load_task
from r2med_ray.corpus.query_subsets import with_choice
from r2med_ray.corpus.shards import held_ids, read_ids
from r2med_ray.corpus.text_survey import survey_key
from r2med_ray.errors import ConfigError
from r2med_ray.settings.config import TaskConfig
from r2med_ray.settings.registry import nearest
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem
from r2med_ray.types import Document, Query, Task, positives_of
from r2med_ray.workbench.task_sources import find_task, stored_corpus

T = TypeVar("T")

IDS_COMPARED = 100_000
"""Documents of a corpus whose ids are compared with an unknown one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is shown."""

    task: Task
    system: ResolvedSystem
    query: Query
    document: Document | None


@contextmanager
def chosen(
    benchmark: ResolvedBenchmark, store: ArtifactStore, *, task: str, system: str, query: str, document: str | None
) -> Iterator[Chosen]:
    """Find what is to be shown.

    A corpus that the store doesn't hold is converted into a folder that is removed at the end.

    Args:
        benchmark: has task and system.
        store: where converted corpora are.
        task: the task's name.
        system: the system's name.
        query: the id of one of the queries that the benchmark asks.
        document: the document's id. If left out, it is the first relevant one by id, if there is one.

    Raises:
        ConfigError: there is no such task, system, query or document.
        DataError: a file of the task is wrong or not on this machine.
    """
    entry = _named("task", task, {each.name: each for each in benchmark.tasks})
    resolved = _named("system", system, {each.name: each for each in benchmark.systems})
    with TemporaryDirectory(prefix="r2med-show-") as folder:
        home, loaded = _load(entry, benchmark, store, ArtifactStore(folder))
        asked = _named(f"query of {task}", query, {each.query_id: each for each in loaded.queries})
        yield Chosen(task=loaded, system=resolved, query=asked, document=_document(home, loaded, asked, document))


def _load(
    entry: TaskRow | TaskConfig, benchmark: ResolvedBenchmark, store: ArtifactStore, scratch: ArtifactStore
) -> tuple[ArtifactStore, Task]:
    """Return a task with the queries that the benchmark asks, and the store that its corpus was read from."""
    source = find_task(entry, download=False)
    corpus = stored_corpus(source, benchmark, store)
    is_whole = corpus is not None and store.find(survey_key(corpus)) is not None
    home = store if is_whole else scratch
    resources = benchmark.config.resources
    size, shards = resources.documents_per_shard, resources.shards
    conflict = benchmark.on_conflict
    task = load_task(source, home, documents_per_shard=size, shards=shards, on_conflict=conflict)
    return home, with_choice(task, benchmark.choices.get(task.name))


def _document(home: ArtifactStore, task: Task, query: Query, wanted: str | None) -> Document | None:
    relevant = positives_of(task.qrels.get(query.query_id, {}))
    candidates = relevant if wanted is None else {wanted}
    there = sorted(held_ids(home, task.corpus, candidates))
    if there:
        return fetch_documents(home, task.corpus, there[:1])[there[0]]
    if wanted is None:
        return None
    return _named(f"document of {task.name}", wanted, dict.fromkeys(islice(_ids(home, task), IDS_COMPARED)))


def _ids(home: ArtifactStore, task: Task) -> Iterator[str]:
    for shard in task.corpus.shards:
        yield from read_ids(home, shard).to_pylist()


def _named(kind: str, name: str, known: dict[str, T]) -> T:
    if name not in known:
        raise ConfigError(f"unknown {kind} {name!r}.{nearest(name, known)} Known: {_some(known)}")
    return known[name]


def _some(names: Iterable[str]) -> str:
    first = list(islice(names, 11))
    return ", ".join(first[:10]) + (", ..." if len(first) > 10 else "")
