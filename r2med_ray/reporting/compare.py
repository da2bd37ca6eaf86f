"""Our figures beside published ones of the same system, per task and averaged over each suite."""

from dataclasses import replace

from r2med_ray.reporting.columns import Column, text_table
from r2med_ray.reporting.formats import points, signed_points
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import Summary, summarise


def compare_with_published(record: BenchmarkRecord) -> str:
    """Return the comparison for a terminal or a log."""
    columns = published_columns(summarise(replace(record, baseline=None)))
    if not columns:
        return f"{record.name}: no {record.main_measure} is published for any of its systems and tasks\n"
    return f"{record.name}: {record.main_measure} on a scale of 0–100\n\n{text_table(columns)}"


def published_columns(summary: Summary) -> list[Column]:
    """Return one row per system and task with a published figure, and one per suite that has one for every task.

    No columns where nothing is published.
    """
    rows = [
        (row.system.name, task, ours, published, source)
        for row in summary.rows
        for task, ours, published, source in (
            *((task, row.scores[task], score.value, score.source) for task, score in row.published.items()),
            *(
                (f"Mean{label}", row.suite_means[suite], row.published_means[suite], "")
                for suite, label in summary.averaged_suites.items()
                if suite in row.published_means
            ),
        )
    ]
    if not rows:
        return []
    systems, tasks, ours, published, sources = zip(*rows, strict=True)
    return [
        Column(title="System", values=systems, is_number=False),
        Column(title="Task", values=tasks, is_number=False),
        Column(title="Ours", values=ours, write=points),
        Column(title="Published", values=published, write=points),
        Column(
            title="Difference",
            values=[mine - theirs for mine, theirs in zip(ours, published, strict=True)],
            write=signed_points,
        ),
        Column(title="Source", values=sources, is_number=False),
    ]
