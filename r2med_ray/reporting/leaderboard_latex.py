"""The leaderboard as a table for a paper: the best of each column is bold, and significant differences are marked."""

from collections.abc import Mapping
from dataclasses import replace

from r2med_ray.evaluation.significance import Comparison
from r2med_ray.reporting.columns import Column
from r2med_ray.reporting.latex import latex_table
from r2med_ray.reporting.notes import warnings
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.scales import scale_of
from r2med_ray.reporting.summary import SIGNIFICANCE_LEVEL, Summary, against_baseline, is_significant
from r2med_ray.reporting.tables import name_column, score_columns

MARK = "†"
"""Stands behind a figure that differs significantly from the baseline's, up or down."""


def leaderboard_latex(summary: Summary) -> str:
    """Return the table of the means and of each task. The marks of a column are adjusted over its systems."""
    record = summary.record
    scores = score_columns(summary)
    means = {row.system.name: row.comparison for row in summary.rows if row.comparison}
    of_tasks = {task.name: task_comparisons(record, task.name) for task in record.leaderboard_tasks}
    compared: dict[str, Mapping[str, Comparison]] = {"Mean": means, **of_tasks}
    marked = [_marked(column, summary, compared.get(column.title, {})) for column in scores]
    caption = (
        f"{record.name}: {record.main_measure} {scale_of(record, record.main_measure).words}. "
        "The best of each column is bold."
    )
    if any(mark for column in marked for mark in column.marks):
        caption += (
            f" {MARK}: differs from {record.baseline} with p < {SIGNIFICANCE_LEVEL} (two-sided paired randomisation "
            "test over queries, adjusted by Holm over the systems of a column)."
        )
    notes = [r"needs \usepackage{booktabs}", *warnings(record)]
    return latex_table([name_column(summary), *marked], caption, notes)


def task_comparisons(record: BenchmarkRecord, task: str) -> Mapping[str, Comparison]:
    """Compare every system that has run a task with the baseline, if the baseline has run it too, in this task."""
    values = {
        result.system: {task: result.evaluation.values(record.main_measure)}
        for result in record.results
        if result.task == task
    }
    return against_baseline(record, values)


def _marked(column: Column, summary: Summary, compared: Mapping[str, Comparison]) -> Column:
    significant = {name for name, found in compared.items() if is_significant(found)}
    return replace(column, marks=[MARK if row.system.name in significant else "" for row in summary.rows])
