"""Systems × tasks as one job: load → rewrite → encode → index → search → fuse → rerank → evaluate → report."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from r2med_ray.corpus.conditions import with_hard_negatives
from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.packs import read_pack
from r2med_ray.corpus.query_subsets import chosen, with_choice
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.evaluation.hard_negatives.placed import require_labelled
from r2med_ray.recording import loading_record, stage_records, system_record, task_record
from r2med_ray.reporting.missing import Missing
from r2med_ray.reporting.part_records import PartRecord
from r2med_ray.reporting.record import BenchmarkRecord, StageRecord, TaskRecord, versions
from r2med_ray.reporting.report_places import require_replaceable_at
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_text
from r2med_ray.reporting.write import write_report_to
from r2med_ray.results import Results, maps_of, results_of
from r2med_ray.secrets import scrubbed
from r2med_ray.settings.config_files import load_with
from r2med_ray.settings.hard_negatives import without_condition
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.places import without_credentials
from r2med_ray.systems import ResolvedBenchmark, resolve
from r2med_ray.types import Task
from r2med_ray.workbench.bench import Workbench, open_workbench
from r2med_ray.workbench.interrupting import said_plainly
from r2med_ray.workbench.job_folders import default_base, lasting
from r2med_ray.workbench.job_records import recorded
from r2med_ray.workbench.made import part_records
from r2med_ray.workbench.plan import make_plan
from r2med_ray.workbench.task_sources import find_task

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
        benchmark = bench.dtypes.of_benchmark(benchmark)
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
    benchmark = bench.dtypes.of_benchmark(benchmark)
    started = datetime.now(UTC)
    missing = Missing(config.when_missing)
    tasks, loaded = load_tasks(benchmark, bench.store, missing)
    found = results_of(benchmark, bench, tasks, missing)
    computed = {name: part_records(of_system) for name, of_system in found.made.items()}
    _say(computed)
    missing.require_some(len(found.records))
    is_whole = not any(task.all_queries for task in tasks)
    return BenchmarkRecord(
        name=config.name,
        config=config.model_dump(mode="json"),
        measures=config.measure_names,
        main_measure=config.main_measure,
        baseline=config.baseline,
        depth=config.depth,
        seed=config.seed,
        tasks=tuple(_task_records(benchmark, tasks, found)),
        systems=tuple(
            system_record(
                resolved,
                found.examples.get(resolved.name, {}),
                found.models.get(resolved.name, ()),
                computed.get(resolved.name, ()),
                is_whole=is_whole,
            )
            for resolved in benchmark.systems
        ),
        results=tuple(found.records),
        missing=tuple(missing.records),
        maps=found.maps,
        stages=(*loaded, *stage_records(bench.worklog.entries, part_records(chain(*found.made.values())))),
        cluster=bench.runner.describe(),
        versions=versions(),
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _task_records(benchmark: ResolvedBenchmark, tasks: Sequence[Task], found: Results) -> Iterator[TaskRecord]:
    """Yield the record of each task, followed by those of its conditions; of a task too that could not be loaded."""
    loaded_as: dict[str, list[Task | None]] = {}
    for task in tasks:
        loaded_as.setdefault(without_condition(task.name), []).append(task)
    for entry in benchmark.tasks:
        for loaded in loaded_as.get(entry.name, [None]):
            yield task_record(entry, loaded, found.texts.get(loaded.name) if loaded else None)


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
            chosen(task.queries, maps_of(benchmark, task.name), task.name)
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
