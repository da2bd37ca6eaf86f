"""What a benchmark will do: the same driver, which counts what the store lacks in place of having it done.

It reads task files and the store, writes nothing and starts nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from r2med_ray.chat import LanguageModel
from r2med_ray.corpora import Corpus
from r2med_ray.corpus.catalog import TaskCounts, TaskRow
from r2med_ray.corpus.loading import read_task_queries
from r2med_ray.corpus.query_subsets import chosen
from r2med_ray.corpus.sources import data_folder
from r2med_ray.errors import DataError, NotAtHand
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.bad_documents import find_shards
from r2med_ray.first_stages.second_search import SecondSearch
from r2med_ray.models.at_hand import ModelsAtHand
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.row import Row
from r2med_ray.models.catalog.service_keys import find_key
from r2med_ray.pipeline import rank
from r2med_ray.reporting.missing import needs
from r2med_ray.reporting.record import MissingRecord
from r2med_ray.rewriting.published_generations import FILE_NAME
from r2med_ray.settings.config import TaskConfig
from r2med_ray.settings.hard_negatives import with_condition
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem
from r2med_ray.types import Task
from r2med_ray.workbench.answers import TextsAnswer
from r2med_ray.workbench.computing import computing_lines
from r2med_ray.workbench.driver import Counted, Driver
from r2med_ray.workbench.forecast import (
    LookedUp,
    preparation,
    read_one_by_one,
    reranking,
    shard_counts,
    texts_to_write,
    writing,
)
from r2med_ray.workbench.plan_text import Plan
from r2med_ray.workbench.prompts_read import Reading, prompts_read
from r2med_ray.workbench.runner import Runner
from r2med_ray.workbench.task_sources import PUBLISHED, find_task, published_here, stored_corpus
from r2med_ray.workbench.worklog import Worklog

NOT_CONVERTED = Corpus(key="", digest="not converted", shards=())
"""Stands for a corpus that is yet to be converted: nothing of it is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What is known of a task before anything is done for it."""

    task: Task
    is_here: bool
    state: str
    """What the plan says about its corpus."""

    counts: TaskCounts | None
    """What the catalogue says of its size; None for a task of the user's."""

    @property
    def num_queries(self) -> int:
        return len(self.task.queries) or (self.counts.queries if self.counts else 0)


def make_plan(benchmark: ResolvedBenchmark, store: ArtifactStore, runner: Runner) -> Plan:
    """Look at task files and store.

    Args:
        benchmark: the benchmark, all names of which are known.
        store: where artefacts are kept.
        runner: would do the work. It is asked what names artefacts and what it would reserve, and nothing else.
    """
    found = [_find(entry, benchmark, store) for entry in benchmark.tasks]
    parts = {f"{system.name}, {item.task.name}": (system, item) for item, system in product(found, benchmark.systems)}
    driver = Driver(store, runner, Worklog(), published_here)
    steps = {name: rank(item.task, system, device=runner.device) for name, (system, item) in parts.items()}
    counted = driver.count(steps)
    looked_up = list(_look_up(benchmark, store, found, runner.device))
    return Plan(
        benchmark=benchmark,
        tasks=(*((item.task.name, item.state) for item in found), *_conditions(benchmark)),
        shards=tuple(shard_counts(looked_up)),
        unwritten=tuple(_unwritten(parts, counted)),
        needs=tuple(needs([*_data(found, benchmark), *_texts(parts, counted), *_models(benchmark)])),
        keys=tuple(_keys(benchmark)),
        cluster=runner.describe(),
        reservations=tuple(
            runner.reservations(
                [first_stage for system in benchmark.systems for first_stage in system.searched_with],
                [scorer for system in benchmark.systems for scorer in system.scorers],
                _language_models(benchmark),
            )
        ),
        read_one_by_one=tuple(read_one_by_one(runner, looked_up)),
        computing=tuple(computing_lines(benchmark, runner)),
        estimates=(
            *preparation(
                store, runner, looked_up, documents_per_shard=benchmark.config.resources.documents_per_shard
            ),
            *reranking(runner, _pairs(parts, counted)),
            *prompts_read(runner, _readings(parts, counted)),
            *writing(texts_to_write(counted.values())),
        ),
    )


def _conditions(benchmark: ResolvedBenchmark) -> Iterator[tuple[str, str]]:
    """Yield the conditions with hard negatives. A pack is read when the job starts, so its work is not counted."""
    for entry in benchmark.config.hard_negatives:
        for condition in entry.conditions:
            name = with_condition(entry.task, condition)
            yield name, f"{entry.task} with hard negatives, which are not counted here"


def _find(entry: TaskRow | TaskConfig, benchmark: ResolvedBenchmark, store: ArtifactStore) -> _Found:
    counts = entry.counts if isinstance(entry, TaskRow) else None
    try:
        source = find_task(entry, download=False)
        corpus = stored_corpus(source, benchmark, store)
        every = tuple(read_task_queries(source))
        choice = benchmark.choices.get(entry.name)
        queries = every if choice is None else chosen(every, choice, entry.name)
    except DataError as error:  # a plan of what isn't there yet is still a plan; the run stops at this error
        what = error.what if isinstance(error, NotAtHand) else str(error)
        folder = data_folder(entry.name)
        return _Found(
            task=_task(entry, NOT_CONVERTED, (), folder),
            is_here=not isinstance(error, NotAtHand),
            state=f"not here yet: {what}",
            counts=counts,
        )
    state = (
        f"{corpus.num_documents} documents in {len(corpus.shards)} shards, converted"
        if corpus
        else "corpus to be converted; its shards are known afterwards"
    )
    is_part = len(queries) < len(every)
    if is_part:
        state += f"; {len(queries)} of {len(every)} queries"
    task = _task(entry, corpus or NOT_CONVERTED, queries, source.folder)
    task = replace(task, all_queries=every) if is_part else task
    return _Found(task=task, is_here=True, state=state, counts=counts)


def _task(entry: TaskRow | TaskConfig, corpus: Corpus, queries: tuple[Any, ...], folder: Path) -> Task:
    suite, revision = (entry.suite, entry.revision) if isinstance(entry, TaskRow) else (entry.name, "")
    return Task(
        name=entry.name, suite=suite, revision=revision, corpus=corpus, queries=queries, qrels={}, folder=str(folder)
    )


def _look_up(
    benchmark: ResolvedBenchmark, store: ArtifactStore, found: Sequence[_Found], device: str
) -> Iterator[LookedUp]:
    """Look up what is stored of each corpus, once per group of first stages that share it."""
    groups: dict[tuple[type[FirstStage], str], dict[str, FirstStage]] = {}
    for system in benchmark.systems:
        for searched in system.searched_with:
            retriever = searched.retriever if isinstance(searched, SecondSearch) else searched
            groups.setdefault((type(retriever), retriever.artifact_group), {}).setdefault(retriever.label, retriever)
    for item, group in product(found, groups.values()):
        first_stage = next(iter(group.values()))
        corpus, task, key = item.task.corpus, item.task.name, None
        shards: list[tuple[int, Artifact | None]] | None = None if corpus is NOT_CONVERTED else []
        if corpus.shards and first_stage.work != "nothing":
            stored = find_shards(store, first_stage, item.task, corpus.shards, device)
            shards = [(shard.num_rows, artifact) for shard, artifact in zip(corpus.shards, stored, strict=True)]
            key = first_stage.shard_key(task, corpus, corpus.shards[0], device)
        yield LookedUp(
            task=task,
            first_stages=tuple(group.values()),
            documents=item.counts.documents if item.counts else None,
            queries=item.num_queries,
            shards=shards,
            key=key,
        )


def _pairs(
    parts: Mapping[str, tuple[ResolvedSystem, _Found]], counted: Mapping[str, Counted]
) -> Iterator[tuple[RerankerRow, int]]:
    """Yield the pairs that a reranker may have to score, for each part that is not finished."""
    for reranker, queries, candidates in _readings(parts, counted):
        if reranker.scorer:
            yield reranker.scorer, queries * candidates


def _readings(
    parts: Mapping[str, tuple[ResolvedSystem, _Found]], counted: Mapping[str, Counted]
) -> Iterator[Reading]:
    """Yield what each reranker may have to order, for each part that is not finished."""
    for name, (system, item) in parts.items():
        if not counted[name].is_finished:
            for each in system.rerankers:
                yield Reading(each, item.num_queries, min(system.depth, each.config.depth))


def _unwritten(parts: Mapping[str, tuple[ResolvedSystem, _Found]], counted: Mapping[str, Counted]) -> Iterator[str]:
    """Yield how many texts language models have yet to write for rewriters, per system and task."""
    for name, (system, item) in parts.items():
        config, count = system.config.rewriter, counted[name]
        if system.language_model is None or config is None or system.method is None or not item.task.queries:
            continue
        turns = system.method.turns(config)
        most = len(item.task.queries) * config.samples * turns
        missing = sum(len(answer.missing) for answer in count.waits_for if isinstance(answer, TextsAnswer))
        if isinstance(count.error, NotAtHand):
            yield f"{name}: {most}; needs {count.error.what}"
        elif not count.is_rewriting:
            yield f"{name}: 0 of {most}"
        elif system.tool and (config.agent or turns > 1 or not missing):
            yield f"{name}: up to {most}; they depend on what {system.tool.label} finds"
        elif turns > 1:
            yield f"{name}: up to {most}; the later ones depend on the first"
        else:
            yield f"{name}: {missing} of {most}"


def _data(found: Sequence[_Found], benchmark: ResolvedBenchmark) -> Iterator[MissingRecord]:
    for item, system in product(found, benchmark.systems):
        if not item.is_here:
            needed = f"data {item.state.removeprefix('not here yet: ')}"
            yield MissingRecord(system=system.name, task=item.task.name, needs=needed)


def _texts(
    parts: Mapping[str, tuple[ResolvedSystem, _Found]], counted: Mapping[str, Counted]
) -> Iterator[MissingRecord]:
    """Yield what can't be replayed; published texts of a task whose data isn't here are no news."""
    for name, (system, item) in parts.items():
        error = counted[name].error
        if not isinstance(error, NotAtHand) or FILE_NAME not in error.what:
            continue
        if error.what.startswith(PUBLISHED):
            if item.is_here:
                yield MissingRecord(system=system.name, task=item.task.name, needs=error.what)
            continue
        needed = f"texts that were never published, {error.what}"
        yield MissingRecord(system=system.name, task=item.task.name, needs=needed)


def _models(benchmark: ResolvedBenchmark) -> Iterator[MissingRecord]:
    """Yield the models that are not on this machine. The Hub is not asked; keys that are not set are told apart."""
    models = ModelsAtHand(benchmark.names.catalog, memory_gb=None, device="cpu", ask_hub=False)
    for system, entry in product(benchmark.systems, benchmark.tasks):
        for row in catalog_rows(benchmark, system):
            if all(find_key(variable) for variable in row.key_variables):
                try:
                    models.require(row)
                except NotAtHand as error:
                    yield MissingRecord(system=system.name, task=entry.name, needs=f"model {row.name}: {error.what}")


def _keys(benchmark: ResolvedBenchmark) -> Iterator[str]:
    """Yield each environment variable with a key of a service, whether it is set, and who needs it; never the key."""
    models: dict[str, dict[str, None]] = {}
    for system in benchmark.systems:
        for row in catalog_rows(benchmark, system):
            for variable in row.key_variables:
                models.setdefault(variable, {})[row.name] = None
    for variable, names in models.items():
        yield f"{variable}: {'set' if find_key(variable) else 'not set'}; for {', '.join(names)}"


def _language_models(benchmark: ResolvedBenchmark) -> Iterator[LanguageModel]:
    for system in benchmark.systems:
        yield from (row for row in (system.language_model, *system.reranking_models) if row)


def catalog_rows(benchmark: ResolvedBenchmark, system: ResolvedSystem) -> Iterator[Row]:
    """Yield the rows of the catalogue that work for a system, and those that they name."""
    for row in system.rows:
        if isinstance(row, Row):
            yield from row.rows_of(benchmark.names.catalog)
