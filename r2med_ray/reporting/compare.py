"""Our figures beside published ones of the same system, per task and averaged over each suite."""

from dataclasses import dataclass

from r2med_ray.reporting.formats import points, signed_points
from r2med_ray.reporting.summary import Summary
from r2med_ray.reporting.tables import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedComparison:
    """One figure of ours and what others report, on the scale 0 to 1."""

    system: str
    task: str
    """A task, or `Mean` over the tasks of a suite."""

    ours: float
    published: float
    source: str
    """Repository or site and commit."""


def compare_with_published(summary: Summary) -> list[PublishedComparison]:
    """Return one entry per system and task with a published figure, then one per suite with one for every task."""
    return [
        PublishedComparison(system=row.system.name, task=task, ours=ours, published=published, source=source)
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


def published_columns(summary: Summary) -> list[Column]:
    """Return the comparison as a table; no columns where nothing is published."""
    found = compare_with_published(summary)
    columns = [
        Column(title="System", values=[entry.system for entry in found], is_number=False),
        Column(title="Task", values=[entry.task for entry in found], is_number=False),
        Column(title="Ours", values=[entry.ours for entry in found], write=points),
        Column(title="Published", values=[entry.published for entry in found], write=points),
        Column(title="Difference", values=[entry.ours - entry.published for entry in found], write=signed_points),
        Column(title="Source", values=[entry.source for entry in found], is_number=False),
    ]
    return columns if found else []
