"""Systems × tasks as one job: load → rewrite → encode → index → search → fuse → rerank → evaluate → report."""

import logging
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from r2med_ray.artifacts import ArtifactStore
from r2med_ray.assembly import Assembly
from r2med_ray.capacity import Pools, size_pools
from r2med_ray.config import load_config
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import fetch_documents, load_task
from r2med_ray.distributed.progress import StageReport
from r2med_ray.distributed.session import connect
from r2med_ray.pipeline import Outcome, System, run_system
from r2med_ray.plan import make_plan
from r2med_ray.reporting.output_folder import require_replaceable
from r2med_ray.reporting.record import (
    BenchmarkRecord,
    ResultRecord,
    StageRecord,
    SystemRecord,
    TaskRecord,
    versions,
)
from r2med_ray.reporting.tables import leaderboard_text
from r2med_ray.reporting.write import write_report
from r2med_ray.retrieval.stored import StoredRetriever
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
    require_replaceable(results)
    with connect(address) as capacity:
        pools = size_pools(benchmark.config.resources, capacity)
        print(make_plan(benchmark, artifacts, pools, capacity).text())  # noqa: T201
        if dry_run:
            return
        record = run_benchmark(benchmark, artifacts, pools)
    report = write_report(record, results)
    print(leaderboard_text(record))  # noqa: T201
    print(f"report: {report / 'index.html'}")  # noqa: T201


def _base() -> Path:
    """Return where results go by default: here, but not into the copy of a working folder that Ray deletes."""
    return Path.home() / "r2med_ray" if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ else Path.cwd()


def run_benchmark(benchmark: ResolvedBenchmark, store: ArtifactStore, pools: Pools) -> BenchmarkRecord:
    """Run every system on every task."""
    config = benchmark.config
    started = datetime.now(UTC)
    tasks, stages = _load_tasks(benchmark, store)
    results: list[ResultRecord] = []
    with Assembly(benchmark, store, pools) as assembly:
        systems = [[assembly.system(task, resolved) for resolved in benchmark.systems] for task in tasks]
        asked = [
            item
            for task, of_task in zip(tasks, systems, strict=True)
            for resolved, system in zip(benchmark.systems, of_task, strict=True)
            for item in assembly.unanswered(task, resolved, system)
        ]
        stages += [_stage_record(stage, unit, report) for stage, unit, report in assembly.prepare(asked)]
        for task, of_task in zip(tasks, systems, strict=True):
            results += [_result(benchmark, store, task, system) for system in of_task]
            assembly.release()
    return BenchmarkRecord(
        name=config.name,
        config=config.model_dump(mode="json"),
        measures=config.measures,
        main_measure=config.main_measure,
        baseline=config.baseline,
        depth=config.depth,
        seed=config.seed,
        tasks=tuple(_task_record(task) for task in tasks),
        systems=tuple(_system_record(resolved) for resolved in benchmark.systems),
        results=tuple(results),
        stages=tuple(stages),
        versions=versions(),
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _load_tasks(benchmark: ResolvedBenchmark, store: ArtifactStore) -> tuple[list[Task], list[StageRecord]]:
    """LOAD and SHARD every task before anything is computed, so that a bad record stops the job at once."""
    config = benchmark.config
    tasks, stages = [], []
    for source in resolve_tasks(config.tasks):
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
        seconds={"search to evaluate": seconds},
    )


def _artifact_names(task: Task, system: System, outcome: Outcome) -> dict[str, str]:
    names = {"corpus": task.corpus.key}
    for number, retriever in enumerate(system.retrievers, start=1):
        if isinstance(retriever, StoredRetriever):
            names[f"run {number}"] = retriever.key(outcome.rewriting.queries, k=system.depth).name
    return names


def _stage_record(stage: str, unit: str, report: StageReport) -> StageRecord:
    return StageRecord(
        stage=stage, unit=unit, documents=report.documents, seconds=report.seconds, reused=report.documents == 0
    )


def _task_record(task: Task) -> TaskRecord:
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
