"""The leaderboard as Markdown, CSV, plain text and LaTeX, and the columns that the page shows too.

The same results give the same bytes: nothing here depends on when or how fast a benchmark ran.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from r2med_ray.reporting.columns import Column, csv_table, escape_markdown, markdown_table, text_table
from r2med_ray.reporting.compare import verdict_columns, verdict_notes
from r2med_ray.reporting.formats import points
from r2med_ray.reporting.hard_negative_tables import hard_negative_sections
from r2med_ray.reporting.leak_tables import leak_sections
from r2med_ray.reporting.nano_tables import nano_sections
from r2med_ray.reporting.notes import reading_notes, warnings
from r2med_ray.reporting.scales import POINTS, Scale, comparison_columns, scale_of
from r2med_ray.reporting.summary import Summary, SystemSummary
from r2med_ray.reporting.verdicts import verdicts


def leaderboard_markdown(summary: Summary) -> str:
    """Return the tables and what a reader must know, as one Markdown page."""
    record = summary.record
    judged = verdicts(summary)
    sections = [
        f"# {escape_markdown(record.name)}\n",
        *(f"> {escape_markdown(warning)}\n" for warning in warnings(record)),
        f"{escape_markdown(record.main_measure)} {scale_of(record, record.main_measure).words}; "
        "the best of each column is bold.\n",
        markdown_table([_described(name_column(summary), summary), *score_columns(summary), *side_columns(summary)]),
        "## All measures\n",
        markdown_table([name_column(summary), *measure_columns(summary)]),
        *(["## Against published figures\n", markdown_table(verdict_columns(judged))] if judged else []),
        *(["".join(f"- {escape_markdown(note)}\n" for note in verdict_notes(judged))] if judged else []),
        *hard_negative_sections(summary),
        *nano_sections(summary),
        *leak_sections(record),
        "## Systems\n",
        "".join(f"- {escape_markdown(f'{row.system.name}: {row.system.description}')}\n" for row in summary.rows),
        "## How to read this\n",
        "".join(f"- {escape_markdown(note)}\n" for note in reading_notes(record)),
    ]
    return "\n".join(sections)


def leaderboard_text(summary: Summary) -> str:
    """Return the table and its notes for a terminal or a log."""
    record = summary.record
    table = text_table([name_column(summary), *score_columns(summary), *side_columns(summary)])
    notes = "".join(f"{textwrap.fill(note, 100)}\n" for note in [*warnings(record), *reading_notes(record)])
    return f"{record.name}: {record.main_measure} {scale_of(record, record.main_measure).words}\n\n{table}\n{notes}"


def leaderboard_csv(summary: Summary, *, exact: bool = False) -> str:
    """Return one row per system with every figure. A column on the scale 0 to 100 says so in its title.

    Args:
        summary: the leaderboard.
        exact: write every digit, and shares between 0 and 1.
    """
    rows, scale = summary.rows, scale_of(summary.record, summary.record.main_measure)
    compared = [row.comparison for row in rows]
    intervals = [found.interval if found else None for found in compared]
    measured = [
        *score_columns(summary),
        *measure_columns(summary),
        *published_means(summary).values(),
        _scores("Δ", [found.difference if found else None for found in compared], scale),
        _scores("Δ low", [ends[0] if ends else None for ends in intervals], scale),
        _scores("Δ high", [ends[1] if ends else None for ends in intervals], scale),
        *recall_columns(summary),
    ]
    return csv_table(
        [
            name_column(summary),
            Column(title="Description", values=[row.system.description for row in rows], is_number=False),
            Column(title="Compat", values=[row.system.compat for row in rows], is_number=False),
            *(
                replace(column, title=f"{column.title} (0-100)") if column.write is points and not exact else column
                for column in measured
            ),
            Column(
                title="p", values=[found.p_adjusted if found else None for found in compared], write="{:.4f}".format
            ),
            *_counts(summary),
        ],
        exact=exact,
    )


def name_column(summary: Summary) -> Column:
    return Column(title="System", values=[row.system.name for row in summary.rows], is_number=False)


def _described(names: Column, summary: Summary) -> Column:
    """Return the names with a second line like that of the page: `baseline`, `compat r2med`, and the description."""
    second_lines = [", ".join([*tags(summary, row), row.system.description]) for row in summary.rows]
    return replace(names, second_lines=second_lines)


def tags(summary: Summary, row: SystemSummary) -> list[str]:
    """Return what stands before a system's description."""
    compat = row.system.compat
    return [
        *(["baseline"] if row.system.name == summary.record.baseline else []),
        *([f"compat {compat}"] if compat != "none" else []),
    ]


def score_columns(summary: Summary) -> list[Column]:
    """Return the columns of the main measure: the mean over tasks, the mean over each suite, and each task.

    If there is only one suite, its mean has no column.
    """
    record, rows = summary.record, summary.rows
    suites = {suite: label for suite, label in summary.averaged_suites.items() if label}
    columns = {
        "Mean": [row.means.get(record.main_measure) for row in rows],
        **{f"Mean{label}": [row.suite_means.get(suite) for row in rows] for suite, label in suites.items()},
    }
    scale = scale_of(record, record.main_measure)
    return [
        *(_scores(title, values, scale) for title, values in columns.items()),
        *(
            _scores(task.name, [row.scores.get(task.name) for row in rows], scale)
            for task in record.leaderboard_tasks
        ),
    ]


def measure_columns(summary: Summary) -> list[Column]:
    """Return the mean of each measure over tasks, then the mean over queries and the pooled recalls."""
    record, rows = summary.record, summary.rows
    pooled = list(dict.fromkeys(measure for row in rows for measure in row.micro_recall))
    return [
        *(
            _scores(measure, [row.means.get(measure) for row in rows], scale_of(record, measure))
            for measure in record.measures
        ),
        _scores(
            f"{record.main_measure} by query",
            [row.query_weighted for row in rows],
            scale_of(record, record.main_measure),
        ),
        *(
            _scores(f"{measure} pooled", [row.micro_recall.get(measure) for row in rows], POINTS)
            for measure in pooled
        ),
    ]


def side_columns(summary: Summary) -> list[Column]:
    """Return the columns after the scores: published means, the comparison with the baseline, and counts."""
    compared = [row.comparison for row in summary.rows]
    scale = scale_of(summary.record, summary.record.main_measure)
    return [
        *published_means(summary).values(),
        *(comparison_columns(compared, scale) if any(compared) else []),
        *recall_columns(summary),
        *count_columns(summary),
    ]


def published_means(summary: Summary) -> dict[str, Column]:
    """Return suite → its published means, for each suite that has a published mean for at least one system."""
    return {
        suite: Column(
            title=f"Published{label}", values=[row.published_means.get(suite) for row in summary.rows], write=points
        )
        for suite, label in summary.averaged_suites.items()
        if any(suite in row.published_means for row in summary.rows)
    }


def recall_columns(summary: Summary) -> list[Column]:
    """Return the column of how much the approximate indexes find; no column if every search is exact."""
    values = [row.index_recall for row in summary.rows]
    found = any(value is not None for value in values)
    return [Column(title="Index recall", values=values, write=points)] if found else []


def count_columns(summary: Summary) -> list[Column]:
    """Return the columns that count queries that need a look. A column of zeros is left out."""
    return [column for column in _counts(summary) if any(column.values)]


def _counts(summary: Summary) -> list[Column]:
    rows = summary.rows
    return [
        Column(title="Unanswered", values=[row.num_unanswered for row in rows]),
        Column(title="Flagged", values=[row.num_flagged for row in rows]),
        Column(title="Repaired", values=[row.num_repaired for row in rows]),
        Column(title="Unjudged", values=[row.num_unjudged for row in rows]),
    ]


def _scores(title: str, values: Sequence[float | None], scale: Scale) -> Column:
    return Column(title=title, values=values, write=scale.value, highest_is_best=True)
