"""The figures of a leaderboard: per task, averaged, beside the baseline and beside published figures."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from r2med_ray.corpus.catalog import TASKS
from r2med_ray.evaluation.aggregate import pooled_micro_recall, query_weighted, task_macro
from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.evaluation.published import PublishedScore, published_score
from r2med_ray.evaluation.significance import Comparison, TaskValues, compare_with_baseline
from r2med_ray.reporting.hard_negatives import ConditionFigures, hard_negative_figures
from r2med_ray.reporting.record import BenchmarkRecord, ResultRecord, SystemRecord
from r2med_ray.reporting.scales import measures_of
from r2med_ray.reporting.scrubbing import without_secrets

SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSummary:
    """One row of the leaderboard. Figures are on the scale of their measure, which is 0 to 1 for a share."""

    system: SystemRecord
    scores: Mapping[str, float]
    """Task → value of the main measure, for the tasks that the system has run."""

    suite_means: Mapping[str, float]
    """Suite → unweighted mean of the main measure over its tasks in this benchmark, for suites that lack no task."""

    means: Mapping[str, float]
    """Measure → unweighted mean over all tasks; empty for a system that lacks a task."""

    query_weighted: float | None
    """Mean of the main measure over the queries of all tasks; None for a system that lacks a task."""

    micro_recall: Mapping[str, float]
    """`R@k` → share of the positives of all tasks that is among the first k of their query.

    It is empty for a system that lacks a task.
    """

    comparison: Comparison | None
    """Comparison with the baseline, in the mean over tasks. P-values are adjusted for the number of systems."""

    published: Mapping[str, PublishedScore]
    """Task → what others report for this system in the main measure, whether or not the system has run here."""

    published_means: Mapping[str, float]
    """Suite → mean of the published figures over its tasks in this benchmark, for suites whose tasks all have one."""

    index_recall: float | None
    """The lowest recall of an approximate index on any task; None if every search is exact."""

    num_unanswered: int
    num_flagged: int
    num_repaired: int
    num_unjudged: int

    @property
    def is_significant(self) -> bool:
        return self.comparison is not None and is_significant(self.comparison)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A leaderboard. Systems are sorted by the mean of the main measure, best first; those without one are last."""

    record: BenchmarkRecord
    rows: tuple[SystemSummary, ...]
    hard_negatives: tuple[ConditionFigures, ...] = ()

    @property
    def averaged_suites(self) -> dict[str, str]:
        """Suite → label of its mean, e.g. ` R2MED (3)` for 3 tasks, for each suite that has several tasks.

        If the benchmark has only one suite, the suite is included and its label is empty: its mean is the mean.
        """
        suites = suite_tasks(self.record)
        if len(suites) == 1:
            return dict.fromkeys(suites, "")
        return {suite: f" {suite} ({len(tasks)})" for suite, tasks in suites.items() if len(tasks) > 1}


def suite_tasks(record: BenchmarkRecord) -> dict[str, list[str]]:
    """Return suite → the names of its tasks in the leaderboard, in the benchmark's order."""
    suites: dict[str, list[str]] = {}
    for task in record.leaderboard_tasks:
        suites.setdefault(task.suite, []).append(task.name)
    return suites


def summarise(record: BenchmarkRecord) -> Summary:
    """Work out the leaderboard of a benchmark. Keys and passwords are taken out of the record."""
    record = without_secrets(record)
    results = {system.name: record.leaderboard_results_of(system.name) for system in record.systems}
    comparisons = _comparisons(record, {name: _evaluations(found) for name, found in results.items()})
    rows = [_row(record, system, results[system.name], comparisons.get(system.name)) for system in record.systems]

    def best_first(row: SystemSummary) -> tuple[float, str]:
        return -row.means.get(record.main_measure, -math.inf), row.system.name

    return Summary(
        record=record, rows=tuple(sorted(rows, key=best_first)), hard_negatives=hard_negative_figures(record)
    )


def _row(
    record: BenchmarkRecord,
    system: SystemRecord,
    results: Mapping[str, ResultRecord],
    comparison: Comparison | None,
) -> SystemSummary:
    evaluations = _evaluations(results)
    recalls = [recall for result in results.values() if (recall := result.index_recall) is not None]
    scores = {task: evaluation.means[record.main_measure] for task, evaluation in evaluations.items()}
    published = published_scores(record, system, record.main_measure)
    is_complete = len(evaluations) == len(record.leaderboard_tasks)
    measures = record.measures if is_complete else ()
    recall_cutoffs = {name: parsed.cutoff for name, parsed in measures_of(record).items() if parsed.name == "R"}
    return SystemSummary(
        system=system,
        scores=scores,
        suite_means=_suite_means(record, scores),
        means={measure: task_macro(evaluations, measure) for measure in measures},
        query_weighted=query_weighted(evaluations, record.main_measure) if is_complete else None,
        micro_recall={
            measure: pooled_micro_recall(evaluations, cutoff)
            for measure in measures
            if (cutoff := recall_cutoffs.get(measure)) is not None
        },
        comparison=comparison,
        published=published,
        published_means=_suite_means(record, {task: score.value for task, score in published.items()}),
        index_recall=min(recalls, default=None),
        num_unanswered=sum(evaluation.num_unanswered for evaluation in evaluations.values()),
        num_flagged=sum(result.num_flagged for result in results.values()),
        num_repaired=sum(result.num_repaired for result in results.values()),
        num_unjudged=sum(evaluation.num_unjudged for evaluation in evaluations.values()),
    )


def _evaluations(results: Mapping[str, ResultRecord]) -> dict[str, Evaluation]:
    return {task: result.evaluation for task, result in results.items()}


def _suite_means(record: BenchmarkRecord, scores: Mapping[str, float]) -> dict[str, float]:
    return {
        suite: math.fsum(scores[task] for task in tasks) / len(tasks)
        for suite, tasks in suite_tasks(record).items()
        if scores.keys() >= set(tasks)
    }


def published_scores(record: BenchmarkRecord, system: SystemRecord, measure: str) -> dict[str, PublishedScore]:
    """Return task → the published figure. A user's own collection with the name of a known task gets none."""
    if system.published_key is None:
        return {}
    found = {
        task.name: published_score(task=task.name, measure=measure, **system.published_key)
        for task in record.tasks
        if task.name not in TASKS or TASKS[task.name].suite == task.suite
    }
    return {task: score for task, score in found.items() if score is not None}


def _comparisons(
    record: BenchmarkRecord, evaluations: Mapping[str, Mapping[str, Evaluation]]
) -> Mapping[str, Comparison]:
    """Compare every system that has run all tasks with the baseline, if the baseline has run them too."""
    if record.compared:
        return record.compared
    values = {
        name: {task: evaluation.values(record.main_measure) for task, evaluation in found.items()}
        for name, found in evaluations.items()
        if len(found) == len(record.leaderboard_tasks)
    }
    return against_baseline(record, values)


def against_baseline(record: BenchmarkRecord, values: Mapping[str, TaskValues]) -> Mapping[str, Comparison]:
    """Compare systems with the baseline; nothing if the baseline is not among them.

    Args:
        record: says which system is the baseline.
        values: system → task → query_id → value of one measure.
    """
    others = dict(values)
    baseline = others.pop(record.baseline, None) if record.baseline is not None else None
    return compare_with_baseline(baseline, others, seed=record.seed) if baseline is not None else {}


def is_significant(found: Comparison) -> bool:
    return found.p_adjusted < SIGNIFICANCE_LEVEL
