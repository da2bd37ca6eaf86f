"""Systems × tasks as one job: load → rewrite → encode → index → search → fuse → rerank → evaluate → report."""

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from r2med_ray.corpus.catalog import TaskRow
from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.cuts import together
from r2med_ray.evaluation.text_ties import tie_ranges
from r2med_ray.first_stages.bad_documents import left_out_of
from r2med_ray.pipeline import Ranked, measure, rank
from r2med_ray.reporting.missing import Missing
from r2med_ray.reporting.record import (
    BenchmarkRecord,
    ResultRecord,
    StageRecord,
    SystemRecord,
    TaskRecord,
    versions,
)
from r2med_ray.reporting.report_places import require_replaceable_at
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_text
from r2med_ray.reporting.write import write_report_to
from r2med_ray.retrieval.search import most_found
from r2med_ray.retrieval.searches import searches_of
from r2med_ray.secrets import scrubbed
from r2med_ray.settings.config import TaskConfig
from r2med_ray.settings.config_files import load_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import Json
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem, resolve
from r2med_ray.types import DocId, Rewriting, Run, Task
from r2med_ray.workbench.bench import Workbench, open_workbench
from r2med_ray.workbench.job_folders import default_base, lasting
from r2med_ray.workbench.parts import Ended
from r2med_ray.workbench.plan import find_task, make_plan
from r2med_ray.workbench.showing.examples import example
from r2med_ray.workbench.worklog import Entry

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
        R2MedError: something is wrong with the configuration, the data, the store or the cluster.
    """
    benchmark = resolve(load_config(config_path, overrides))
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
        record = run_benchmark(benchmark, bench)
    summary = summarise(record)
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
    tasks, loaded = _load_tasks(benchmark, bench.store, missing)
    results, examples = _results(benchmark, bench, tasks, missing)
    missing.require_some(len(results))
    by_name = {task.name: task for task in tasks}
    return BenchmarkRecord(
        name=config.name,
        config=config.model_dump(mode="json"),
        measures=config.measure_names,
        main_measure=config.main_measure,
        baseline=config.baseline,
        depth=config.depth,
        seed=config.seed,
        tasks=tuple(_task_record(entry, by_name.get(entry.name)) for entry in benchmark.tasks),
        systems=tuple(_system_record(resolved, examples.get(resolved.name, {})) for resolved in benchmark.systems),
        results=tuple(results),
        missing=tuple(missing.records),
        stages=(*loaded, *map(_stage_record, bench.worklog.entries)),
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
        written = set(store.written)
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
                reused=task.corpus.key not in store.written - written,
            )
        )
    return tasks, stages


def _results(
    benchmark: ResolvedBenchmark, bench: Workbench, tasks: Sequence[Task], missing: Missing
) -> tuple[list[ResultRecord], dict[str, Mapping[str, Json]]]:
    """Have all systems rank all tasks together, and measure each run as soon as it is there.

    Returns:
        The results, and for each system an example of what its models are given on its first task.
    """
    pairs = {f"{system.name} on {task.name}": (task, system) for task in tasks for system in benchmark.systems}
    parts = {name: rank(task, system, device=bench.runner.device) for name, (task, system) in pairs.items()}
    results: dict[str, ResultRecord] = {}
    rewritings: dict[str, Rewriting] = {}
    for name, ended in bench.run(parts):
        task, system = pairs[name]
        with missing.noted(task.name, [system.name]):
            if not isinstance(ended, Ended):
                raise ended
            left_out = left_out_of(bench.store, system.searched_with, task, bench.runner.device)
            results[name] = _result(benchmark, task, system, ended, left_out)
            rewritings[name] = ended.result.rewriting
    examples: dict[str, Mapping[str, Json]] = {}
    for name, (task, system) in pairs.items():
        if name in results and system.name not in examples:
            examples[system.name] = example(bench, benchmark.names, task, system, rewritings[name])
    return [results[name] for name in pairs if name in results], examples


def _result(
    benchmark: ResolvedBenchmark,
    task: Task,
    system: ResolvedSystem,
    ended: Ended[Ranked],
    left_out: Mapping[str, Mapping[DocId, str]],
) -> ResultRecord:
    ranked, began = ended.result, time.monotonic()
    evaluation = measure(ranked.run, task, benchmark.measures)
    drops = any(first_stage.drop_identical_ids for first_stage in system.first_stages)
    identical = sorted(task.identical_ids) if drops else []
    excluded = {query.query_id: query.excluded | {query.query_id}.intersection(identical) for query in task.queries}
    main = benchmark.config.main_measure
    logger.info("%s on %s: %s %.4f", ranked.run.tag, task.name, main, evaluation.means[main])
    return ResultRecord(
        system=ranked.run.tag,
        task=task.name,
        evaluation=evaluation,
        run=ranked.run,
        artifact_names={"corpus": task.corpus.key, **_numbered(ended.artifacts)},
        flagged=ranked.rewriting.flagged,
        unchanged=ranked.rewriting.unchanged,
        left_out=left_out,
        repairs=ranked.repairs,
        found_nothing=ranked.found_nothing,
        identical_ids=tuple(identical),
        identical_positives=tuple(name for name in identical if task.qrels.get(name, {}).get(name, 0) > 0),
        text_ties=tie_ranges(
            ranked.run,
            task.qrels,
            task.same_texts,
            benchmark.measures,
            evaluation,
            depth=system.depth if _keeps_scores(system, ranked) else None,
            excluded=excluded,
        ),
        approximations=ranked.approximations,
        num_short=_short(ranked.run, task, system, left_out),
        seconds={**ended.seconds, "evaluate": time.monotonic() - began},
        cuts=(*together(ended.cuts), *ranked.cuts),
    )


def _keeps_scores(system: ResolvedSystem, ranked: Ranked) -> bool:
    """Return whether a ranking is that of one search of one retriever, which scores equal texts equally."""
    config = system.config
    several = len(searches_of(ranked.rewriting.queries, config.rewriter.combine)) > 1 if config.rewriter else False
    is_given = system.first_stages[0].work == "nothing"  # a list that others made
    return config.fusion is None and config.reranker is None and not several and not is_given


def _short(run: Run, task: Task, system: ResolvedSystem, left_out: Mapping[str, Mapping[DocId, str]]) -> int:
    """Return how many answered queries have fewer documents than were asked for, and than an index has for them."""
    drops = all(first_stage.drop_identical_ids for first_stage in system.first_stages)
    lacking = frozenset.intersection(*(frozenset(left_out.get(each.label, ())) for each in system.first_stages))
    return sum(
        0
        < len(run.rankings.get(query.query_id, ()))
        < min(system.depth, most_found(task, query, drop_identical_ids=drops, left_out=lacking))
        for query in task.queries
    )


def _numbered(names: Sequence[str]) -> Mapping[str, str]:
    """Return `run 1` → name and so on: what a result was made from, in the order of its demands."""
    by_kind: dict[str, list[str]] = {}
    for name in names:
        by_kind.setdefault(name.partition("/")[0], []).append(name)
    return {
        f"{kind} {number}": name for kind, of_kind in by_kind.items() for number, name in enumerate(of_kind, start=1)
    }


def _stage_record(entry: Entry) -> StageRecord:
    report = entry.report
    return StageRecord(
        stage=entry.stage,
        unit=entry.unit,
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


def _system_record(resolved: ResolvedSystem, example: Mapping[str, Json]) -> SystemRecord:
    return SystemRecord(
        name=resolved.name,
        description=resolved.describe(),
        settings={first_stage.label: first_stage.settings() for first_stage in resolved.first_stages},
        compat=resolved.rules.compat,
        differences=tuple(row.id for row in resolved.differences),
        published_key=resolved.published_key,
        example=example,
    )
