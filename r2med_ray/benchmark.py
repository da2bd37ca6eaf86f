"""Systems × tasks as one job: load → rewrite → encode → index → search → fuse → rerank → evaluate → report."""

import logging
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from r2med_ray.assembly import Assembled, Assembly
from r2med_ray.capacity import ClusterCapacity, Pools, size_pools
from r2med_ray.corpus.catalog import TaskRow
from r2med_ray.corpus.loading import fetch_documents, load_task
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.distributed.progress import StageReport
from r2med_ray.distributed.session import connect
from r2med_ray.distributed.stage_parts import Asked
from r2med_ray.models.at_hand import ModelsAtHand, gpu_memory_gb
from r2med_ray.models.catalog.sources import hub_answers
from r2med_ray.pipeline import Outcome, System, run_system
from r2med_ray.plan import find_task, make_plan
from r2med_ray.reporting.missing import Missing
from r2med_ray.reporting.output_folder import require_replaceable
from r2med_ray.reporting.record import (
    BenchmarkRecord,
    ResultRecord,
    StageRecord,
    SystemRecord,
    TaskRecord,
    versions,
)
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_text
from r2med_ray.reporting.write import write_report
from r2med_ray.retrieval.query_construction import searches_of
from r2med_ray.retrieval.stored import StoredRetriever
from r2med_ray.settings.config import TaskConfig
from r2med_ray.settings.config_files import load_config
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem, resolve
from r2med_ray.types import Task

logger = logging.getLogger(__name__)


def run_job(
    config_path: Path,
    *,
    store: str | None = None,
    output: Path | None = None,
    address: str = "auto",
    overrides: Sequence[str] = (),
    dry_run: bool = False,
) -> None:
    """Run a benchmark file to its report, or only show its plan.

    Args:
        config_path: the benchmark file.
        store: folder or URI of the artefacts; `store` where it is left out.
        output: folder of the results; `results/<name>` where it is left out.
        address: see `distributed.session.connect`.
        overrides: `key=value` over the file.
        dry_run: show the plan and stop.

    Raises:
        R2MedError: something is wrong with the configuration, the data, the store or the cluster.
    """
    benchmark = resolve(load_config(config_path, overrides))
    artifacts = ArtifactStore(store or str(_base() / "store"))
    results = output or _base() / "results" / benchmark.config.name
    if not dry_run:
        require_replaceable(results, benchmark.config.name)
    with connect(address) as capacity:
        pools = size_pools(benchmark.config.resources, capacity)
        print(make_plan(benchmark, artifacts, pools, capacity).text())  # noqa: T201
        if dry_run:
            return
        record = run_benchmark(benchmark, artifacts, pools, capacity, models_at_hand(benchmark, pools, capacity))
    summary = summarise(record)
    report = write_report(summary, results)
    print(leaderboard_text(summary))  # noqa: T201
    print(f"report: {report / 'index.html'}")  # noqa: T201


def _base() -> Path:
    """Return where results go by default: here, but not into the copy of a working folder that Ray deletes."""
    return Path.home() / "r2med_ray" if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ else Path.cwd()


def models_at_hand(benchmark: ResolvedBenchmark, pools: Pools, capacity: ClusterCapacity) -> ModelsAtHand | None:
    """Return what is asked about models before the run; None where a worker is to find out what it lacks."""
    if benchmark.config.when_missing == "error":
        return None
    device = pools.encode.device
    memory_gb = gpu_memory_gb() if device == "cuda" else capacity.memory_gb_of_largest_node
    return ModelsAtHand(benchmark.catalog, memory_gb=memory_gb, device=device, ask_hub=hub_answers())


def run_benchmark(
    benchmark: ResolvedBenchmark,
    store: ArtifactStore,
    pools: Pools,
    capacity: ClusterCapacity,
    models: ModelsAtHand | None = None,
) -> BenchmarkRecord:
    """Run every system on every task.

    Args:
        benchmark: with all its names looked up.
        store: where artefacts are kept.
        pools: what each stage reserves.
        capacity: what the cluster has.
        models: asked for each model that would have to work; None asks nobody.

    Raises:
        NotAtHand: something is not at hand and may not be left out, or nothing is left.
    """
    config = benchmark.config
    started = datetime.now(UTC)
    missing = Missing(config.when_missing)
    tasks, stages = _load_tasks(benchmark, store, missing)
    results: list[ResultRecord] = []
    with Assembly(benchmark, store, pools, capacity, models) as assembly:
        systems = _assemble(benchmark, assembly, tasks, missing)
        stages += [_stage_record(stage, unit, report) for stage, unit, report in assembly.rewrite(systems)]
        systems, asked = _unanswered(assembly, systems, missing)
        stages += [_stage_record(stage, unit, report) for stage, unit, report in assembly.prepare(asked)]
        for task in tasks:
            for item in [item for item in systems if item.task is task]:
                with missing.noted(task.name, [item.system.name]):
                    results.append(_result(benchmark, store, task, item.system))
            assembly.release()
    missing.require_some(len(results))
    loaded = {task.name: task for task in tasks}
    return BenchmarkRecord(
        name=config.name,
        config=config.model_dump(mode="json"),
        measures=config.measures,
        main_measure=config.main_measure,
        baseline=config.baseline,
        depth=config.depth,
        seed=config.seed,
        tasks=tuple(_task_record(entry, loaded.get(entry.name)) for entry in benchmark.tasks),
        systems=tuple(_system_record(resolved) for resolved in benchmark.systems),
        results=tuple(results),
        missing=tuple(missing.records),
        stages=tuple(stages),
        versions=versions(),
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _load_tasks(
    benchmark: ResolvedBenchmark, store: ArtifactStore, missing: Missing
) -> tuple[list[Task], list[StageRecord]]:
    """LOAD and SHARD every task before anything is computed, so that a bad record stops the job at once."""
    config = benchmark.config
    sources: list[TaskSource] = []
    for entry in benchmark.tasks:
        with missing.noted(entry.name, [resolved.name for resolved in benchmark.systems]):
            sources.append(find_task(entry))
    tasks, stages = [], []
    for source in sources:
        began = time.monotonic()
        stored = len(store.names_of("corpus"))
        task = load_task(
            source,
            store,
            documents_per_shard=config.resources.documents_per_shard,
            shards=config.resources.shards,
            on_conflict=benchmark.on_conflict,
        )
        tasks.append(task)
        for warning in task.warnings:
            logger.warning("%s: %s", task.name, warning)
        stages.append(
            StageRecord(
                stage="load",
                unit=task.name,
                documents=task.corpus.num_documents,
                seconds=time.monotonic() - began,
                reused=len(store.names_of("corpus")) == stored,
            )
        )
    return tasks, stages


def _assemble(
    benchmark: ResolvedBenchmark, assembly: Assembly, tasks: Sequence[Task], missing: Missing
) -> list[Assembled]:
    """Return the systems that can run, task by task."""
    systems: list[Assembled] = []
    for task in tasks:
        for resolved in benchmark.systems:
            with missing.noted(task.name, [resolved.name]):
                systems.append(assembly.assembled(task, resolved))
    return systems


def _unanswered(
    assembly: Assembly, systems: Sequence[Assembled], missing: Missing
) -> tuple[list[Assembled], list[Asked[FirstStage]]]:
    """Return the systems that can still run, and what their first stages have to search for."""
    able: list[Assembled] = []
    asked: list[Asked[FirstStage]] = []
    for item in systems:
        with missing.noted(item.task.name, [item.system.name]):
            asked += assembly.unanswered(item)
            able.append(item)
    return able, asked


def _result(benchmark: ResolvedBenchmark, store: ArtifactStore, task: Task, system: System) -> ResultRecord:
    began = time.monotonic()
    outcome = run_system(task, system, benchmark.measures, partial(fetch_documents, store, task.corpus))
    seconds = time.monotonic() - began
    main = benchmark.config.main_measure
    logger.info("%s on %s: %s %.4f (%.1f s)", system.name, task.name, main, outcome.evaluation.means[main], seconds)
    return ResultRecord(
        system=system.name,
        task=task.name,
        evaluation=outcome.evaluation,
        run=outcome.run,
        artifact_names=_artifact_names(task, system, outcome),
        flagged=outcome.rewriting.flagged,
        unchanged=outcome.rewriting.unchanged,
        repairs=outcome.repairs,
        seconds={"search to evaluate": seconds},
    )


def _artifact_names(task: Task, system: System, outcome: Outcome) -> dict[str, str]:
    names = {"corpus": task.corpus.key}
    searches = searches_of(outcome.rewriting.queries, system.combine)
    asked = [(retriever, queries) for retriever in system.retrievers for queries in searches]
    for number, (retriever, queries) in enumerate(asked, start=1):
        if isinstance(retriever, StoredRetriever):
            names[f"run {number}"] = retriever.key(queries, k=system.depth).name
    return names


def _stage_record(stage: str, unit: str, report: StageReport) -> StageRecord:
    return StageRecord(
        stage=stage,
        unit=unit,
        documents=report.documents,
        seconds=report.seconds,
        reused=report.documents == 0,
        cost=report.cost,
    )


def _task_record(entry: TaskRow | TaskConfig, task: Task | None) -> TaskRecord:
    if task is None:
        return TaskRecord(
            name=entry.name,
            suite=entry.suite if isinstance(entry, TaskRow) else entry.name,
            revision=entry.revision if isinstance(entry, TaskRow) else "",
            qrels={},
        )
    return TaskRecord(
        name=task.name,
        suite=task.suite,
        revision=task.revision,
        qrels=task.qrels,
        counts=task.counts,
        warnings=task.warnings,
    )


def _system_record(resolved: ResolvedSystem) -> SystemRecord:
    return SystemRecord(
        name=resolved.name,
        description=resolved.describe(),
        settings={stage.label: stage.settings() for stage in resolved.first_stages},
        compat=resolved.compat,
        published_key=resolved.published_key,
    )
