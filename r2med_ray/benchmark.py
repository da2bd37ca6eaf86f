"""Systems × tasks as one job: load → rewrite → encode → index → search → fuse → rerank → evaluate → report."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from r2med_ray.corpus.conditions import with_hard_negatives
from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.packs import read_pack
from r2med_ray.corpus.query_subsets import chosen, with_choice
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.evaluation.hard_negatives.neighbourhood import NeighbourhoodMap
from r2med_ray.evaluation.hard_negatives.placed import require_labelled
from r2med_ray.first_stages.bad_documents import left_out_of
from r2med_ray.pipeline import Ranked, rank
from r2med_ray.recording import loading_record, result_record, stage_records, system_record, task_record
from r2med_ray.reporting.missing import Missing
from r2med_ray.reporting.record import BenchmarkRecord, ModelRecord, PartRecord, ResultRecord, StageRecord, versions
from r2med_ray.reporting.report_places import require_replaceable_at
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_text
from r2med_ray.reporting.texts import TaskTexts
from r2med_ray.reporting.write import write_report_to
from r2med_ray.secrets import scrubbed
from r2med_ray.settings.config_files import load_with
from r2med_ray.settings.hard_negatives import with_condition, without_condition
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import Json
from r2med_ray.storage.places import without_credentials
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem, resolve
from r2med_ray.types import QueryId, Task
from r2med_ray.workbench.bench import Workbench, open_workbench
from r2med_ray.workbench.interrupting import said_plainly
from r2med_ray.workbench.job_folders import default_base, lasting
from r2med_ray.workbench.job_records import recorded
from r2med_ray.workbench.leaks import Leaks
from r2med_ray.workbench.made import Made, corpus_made, part_records
from r2med_ray.workbench.neighbourhoods import neighbourhood_maps
from r2med_ray.workbench.parts import Ended
from r2med_ray.workbench.plan import find_task, make_plan
from r2med_ray.workbench.showing.examples import example
from r2med_ray.workbench.showing.model_facts import model_records
from r2med_ray.workbench.showing.page_texts import page_texts

logger = logging.getLogger(__name__)


def run_job(
    config_path: Path,
    *,
    store: str | None = None,
    output: str | Path | None = None,
    address: str = "auto",
    overrides: Sequence[str] = (),
    dry_run: bool = False,
) -> None:
    """Run a benchmark file to its report, or only show its plan.

    Args:
        config_path: the benchmark file.
        store: folder or URI of the artefacts; `store` if it is left out.
        output: folder or URI of the results; `results/<name>` if it is left out.
        address: see `distributed.session.connect`.
        overrides: `key=value` over the file.
        dry_run: show the plan and stop.

    Raises:
        R2MedError: something is wrong with the configuration, the data, the store or the cluster; or Ctrl-C came.
    """
    benchmark = load_with(resolve, config_path, overrides)
    config = benchmark.config
    results = lasting("output", output or default_base() / "results" / config.name)
    artifacts = lasting("store", store or default_base() / "store")
    if not dry_run:
        require_replaceable_at(results, config.name)
    with open_workbench(
        artifacts,
        address=address,
        names=benchmark.names,
        resources=config.resources,
        name=config.name,
        ask_for_models=config.when_missing == "skip",
        only_to_plan=dry_run,
        cluster=config.cluster,
    ) as bench:
        print(scrubbed(make_plan(benchmark, bench.store, bench.runner).text()))  # noqa: T201
        if dry_run:
            return
        record = recorded(bench.store, config.name, without_credentials(str(results)))
        with record as another_is_there, said_plainly(bench.store):
            bench.runner.begins_at_the_end = another_is_there
            summary = summarise(run_benchmark(benchmark, bench))
            report = write_report_to(summary, results)
    print(leaderboard_text(summary))  # noqa: T201
    print(f"report: {report}/index.html")  # noqa: T201


def run_benchmark(benchmark: ResolvedBenchmark, bench: Workbench) -> BenchmarkRecord:
    """Run every system on every task.

    Args:
        benchmark: the benchmark, all names of which are known.
        bench: does the work.

    Raises:
        NotAtHand: something is not at hand and may not be left out, or nothing is left.
    """
    config = benchmark.config
    started = datetime.now(UTC)
    missing = Missing(config.when_missing)
    tasks, loaded = load_tasks(benchmark, bench.store, missing)
    results, found = _results(benchmark, bench, tasks, missing)
    computed = {name: part_records(of_system) for name, of_system in found.made.items()}
    _say(computed)
    missing.require_some(len(results))
    loaded_as: dict[str, list[Task | None]] = {}
    for task in tasks:
        loaded_as.setdefault(without_condition(task.name), []).append(task)
    return BenchmarkRecord(
        name=config.name,
        config=config.model_dump(mode="json"),
        measures=config.measure_names,
        main_measure=config.main_measure,
        baseline=config.baseline,
        depth=config.depth,
        seed=config.seed,
        tasks=tuple(
            task_record(entry, task, found.texts.get(task.name) if task else None)
            for entry in benchmark.tasks
            for task in loaded_as.get(entry.name, [None])
        ),
        systems=tuple(
            system_record(
                resolved,
                found.examples.get(resolved.name, {}),
                found.models.get(resolved.name, ()),
                computed.get(resolved.name, ()),
                is_whole=not any(task.all_queries for task in tasks),
            )
            for resolved in benchmark.systems
        ),
        results=tuple(results),
        missing=tuple(missing.records),
        maps=found.maps,
        stages=(*loaded, *stage_records(bench.worklog.entries, part_records(chain(*found.made.values())))),
        cluster=bench.runner.describe(),
        versions=versions(),
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _say(computed: Mapping[str, Sequence[PartRecord]]) -> None:
    """Say in the log how the parts of each system were computed."""
    for name, parts in computed.items():
        for part in parts:
            logger.info("%s: %s", name, part.describe())


def load_tasks(
    benchmark: ResolvedBenchmark, store: ArtifactStore, missing: Missing
) -> tuple[list[Task], list[StageRecord]]:
    """LOAD and SHARD every task before anything is computed, so that a bad record stops the job at once.

    Returns:
        The tasks, each followed by its conditions with hard negatives, and what loading took.
    """
    config = benchmark.config
    sources: list[TaskSource] = []
    for entry in benchmark.tasks:
        with missing.noted(entry.name, [resolved.name for resolved in benchmark.systems]):
            sources.append(find_task(entry))
    tasks, stages = [], []
    for source in sources:
        began = time.monotonic()
        written = set(store.written)
        task = load_task(
            source,
            store,
            documents_per_shard=config.resources.documents_per_shard,
            shards=config.resources.shards,
            on_conflict=benchmark.on_conflict,
        )
        choice = benchmark.choices.get(task.name)
        [task, *conditions] = [with_choice(each, choice) for each in _with_hard_negatives(benchmark, task, store)]
        if conditions:
            require_labelled(task.qrels, task.hard_negatives)
            chosen(task.queries, _maps_of(benchmark, task.name), task.name)
        tasks += [task, *(replace(each, warnings=()) for each in conditions)]
        for warning in task.warnings:
            logger.warning("%s: %s", task.name, warning)
        stages.append(
            StageRecord(
                stage="load",
                unit=task.name,
                documents=task.corpus.num_documents,
                seconds=time.monotonic() - began,
                reused=task.corpus.key not in store.written - written,
                made=loading_record(task),
            )
        )
    return tasks, stages


def _maps_of(benchmark: ResolvedBenchmark, task: str) -> tuple[QueryId, ...]:
    """Return the queries of a task whose neighbourhood is drawn."""
    return next((entry.maps for entry in benchmark.config.hard_negatives if entry.task == task), ())


def _with_hard_negatives(benchmark: ResolvedBenchmark, task: Task, store: ArtifactStore) -> list[Task]:
    """Return a task, and the conditions that the benchmark has of it."""
    for entry in benchmark.config.hard_negatives:
        if entry.task == task.name:
            folders = [Path(pack).expanduser() for pack in entry.packs] or [Path(task.folder) / "hard_negatives"]
            size = benchmark.config.resources.documents_per_shard
            return with_hard_negatives(
                task, read_pack(folders, task), store, entry.conditions, documents_per_shard=size
            )
    return [task]


class _Found(NamedTuple):
    """What is kept of the rankings beside the results."""

    made: dict[str, list[Made]]
    """System → how its parts were computed."""

    examples: dict[str, Mapping[str, Json]]
    """System → an example of what its models are given, on its first task."""

    models: dict[str, tuple[ModelRecord, ...]]
    """System → the facts of its models."""

    texts: dict[str, TaskTexts]
    """Task → the texts that the page shows."""

    maps: tuple[NeighbourhoodMap, ...]


def _results(
    benchmark: ResolvedBenchmark, bench: Workbench, tasks: Sequence[Task], missing: Missing
) -> tuple[list[ResultRecord], _Found]:
    """Have all systems rank all tasks together, and measure each run as soon as it is there."""
    pairs = {f"{system.name} on {task.name}": (task, system) for task in tasks for system in benchmark.systems}
    parts = {name: rank(task, system, device=bench.runner.device) for name, (task, system) in pairs.items()}
    results: dict[str, ResultRecord] = {}
    ranked: dict[str, Ranked] = {}
    made: dict[str, list[Made]] = {}
    leaks = Leaks(bench.store, benchmark.config.seed)
    for name, ended in bench.run(parts):
        task, system = pairs[name]
        with missing.noted(task.name, [system.name]):
            if not isinstance(ended, Ended):
                raise ended
            left_out = left_out_of(bench.store, system.searched_with, task, bench.runner.device)
            leakage = leaks.of(task, ended.result.rewriting)
            results[name] = result_record(benchmark, task, system, ended, left_out, leakage)
            ranked[name] = ended.result
            of_corpus = corpus_made(bench.store, task, system, ended.result, bench.runner.device)
            made.setdefault(system.name, []).extend([*of_corpus, *ended.made])
    done = [(*pairs[name], ranked[name]) for name in pairs if name in results]
    return [results[name] for name in pairs if name in results], _found(benchmark, bench, tasks, done, made)


def _found(
    benchmark: ResolvedBenchmark,
    bench: Workbench,
    tasks: Sequence[Task],
    done: Sequence[tuple[Task, ResolvedSystem, Ranked]],
    made: dict[str, list[Made]],
) -> _Found:
    store, device = bench.store, bench.runner.device
    found = _Found(made, {}, {}, {}, tuple(_maps(benchmark, bench, tasks, done)))
    for task, system, ranked in done:
        if system.name not in found.examples:
            found.examples[system.name] = example(bench, benchmark.names, task, system, ranked)
            found.models[system.name] = model_records(store, device, task, system, ranked)
    for task in tasks:
        of_task = [(system, ranked) for each, system, ranked in done if each is task]
        if of_task and task.qrels:
            found.texts[task.name] = page_texts(store, device, task, of_task)
    return found


def _maps(
    benchmark: ResolvedBenchmark,
    bench: Workbench,
    tasks: Sequence[Task],
    done: Sequence[tuple[Task, ResolvedSystem, Ranked]],
) -> Iterator[NeighbourhoodMap]:
    """Yield the maps that the benchmark wants, from the rankings with the hard negatives of all queries."""
    negatives = {task.name: task.hard_negatives for task in tasks}
    for task, system, ranked in done:
        base = without_condition(task.name)
        if task.name == with_condition(base, "all"):
            labelled = replace(task, hard_negatives=negatives[base])
            wanted = _maps_of(benchmark, base)
            yield from neighbourhood_maps(bench.store, labelled, system, ranked, wanted, bench.runner.device)
