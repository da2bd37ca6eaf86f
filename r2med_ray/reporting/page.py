"""The page: one HTML file that sends no request, escapes every text and is readable without its script."""

import math
import re
from collections import Counter

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from r2med_ray.reporting import formats
from r2med_ray.reporting.columns import Column
from r2med_ray.reporting.compare import verdict_columns, verdict_notes
from r2med_ray.reporting.cut_texts import cut_columns
from r2med_ray.reporting.hard_negative_plots import first_rank_plots, map_plots
from r2med_ray.reporting.hard_negative_tables import NOTES, hard_negative_tables
from r2med_ray.reporting.leak_tables import NOTE, TITLE, leak_columns
from r2med_ray.reporting.notes import reading_notes, warnings
from r2med_ray.reporting.page_data import page_data
from r2med_ray.reporting.published_rules import published_rules
from r2med_ray.reporting.record import BenchmarkRecord, SystemRecord
from r2med_ray.reporting.rewriting_gains import gain, rewriting_gains
from r2med_ray.reporting.run_details import result_columns, stage_columns, task_columns
from r2med_ray.reporting.scales import scale_of
from r2med_ray.reporting.summary import SIGNIFICANCE_LEVEL, Summary, SystemSummary
from r2med_ray.reporting.tables import (
    count_columns,
    measure_columns,
    name_column,
    published_means,
    recall_columns,
    score_columns,
    tags,
)
from r2med_ray.reporting.verdicts import verdicts
from r2med_ray.storage.keys import Json

MOST_BARS = 12
"""Systems that a task's bars show at once; the others are folded."""

_SCRIPTS = ("base", "tables", "board", "plots", "lists", "query", "pair", "main")
"""The parts of the page's script, in the order in which they use each other."""

_ENVIRONMENT = Environment(
    loader=PackageLoader("r2med_ray.reporting", ""),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"sort_keys": False, "separators": (",", ":"), "allow_nan": False}


def breakable(text: str) -> Markup:
    """Return a text as HTML that a narrow column breaks after its signs, and not within its words."""
    return Markup("<wbr>").join(map(escape, re.split(r"(?<=[-+_/@.,:])(?=\w)", text)))


def place_of(value: float, extent: tuple[float, float]) -> str:
    """Return where a difference is drawn, from -60 to 60, on a square-root scale over an extent that has 0 in it."""
    low, high, at = (math.copysign(math.sqrt(abs(each)), each) for each in (*extent, value))
    return f"{120 * (at - low) / (high - low) - 60:.1f}"


for _filter in (formats.points, formats.p_value, breakable, place_of):
    _ENVIRONMENT.filters[_filter.__name__] = _filter


def render_page(summary: Summary) -> str:
    """Return the HTML of a leaderboard."""
    record, judged = summary.record, verdicts(summary)
    return _ENVIRONMENT.get_template("index.html.j2").render(
        record=record,
        scale=scale_of(record, record.main_measure),
        summary=summary,
        tags=tags,
        rows=summary.rows,
        warnings=warnings(record),
        notes=reading_notes(record),
        data=page_data(summary),
        scripts=_SCRIPTS,
        position={system.name: index for index, system in enumerate(record.systems)},
        scores=_scores(summary),
        counts=[*recall_columns(summary), *count_columns(summary)],
        panels=[(task, _best_first(summary, task.name)) for task in record.leaderboard_tasks if task.qrels],
        highest_score=_highest_score(summary),
        extent=_extent(summary),
        significance_level=SIGNIFICANCE_LEVEL,
        measures=[name_column(summary), *measure_columns(summary)],
        published=verdict_columns(judged),
        published_notes=verdict_notes(judged) if judged else [],
        hard_negatives=hard_negative_tables(summary),
        hard_negative_notes=NOTES,
        first_ranks=first_rank_plots(summary),
        maps=map_plots(record),
        gains=rewriting_gains(summary),
        models=Counter(model for system in record.systems for model in dict.fromkeys(system.models)),
        most_bars=MOST_BARS,
        tasks=task_columns(record),
        stages=stage_columns(record),
        results=result_columns(record),
        has_cuts=any(result.cuts for result in record.results),
        cuts=cut_columns(record),
        leaks=leak_columns(record),
        leaks_title=TITLE,
        leaks_note=NOTE,
        settings=_settings(record),
    )


def _scores(summary: Summary) -> list[tuple[str, Column]]:
    """Return the columns of scores, each with a key by which the page's script knows it."""
    positions = [f"task {summary.record.tasks.index(task)}" for task in summary.record.leaderboard_tasks]
    columns = score_columns(summary)
    suites = ["suite"] * (len(columns) - 1 - len(positions))
    published = published_means(summary)
    beside = [each for suite, column in published.items() for each in (column, _to_published(summary, suite))]
    keys = ["mean", *suites, *positions, *["published"] * len(beside)]
    return list(zip(keys, [*columns, *beside], strict=True))


def _to_published(summary: Summary, suite: str) -> Column:
    """Return by how much our means over a suite differ from the published ones."""
    values = [gain(row.suite_means.get(suite), row.published_means.get(suite)) for row in summary.rows]
    title = f"to published{summary.averaged_suites[suite]}"
    return Column(title=title, values=values, write=formats.signed_points)


def _settings(record: BenchmarkRecord) -> dict[str, str]:
    """Return title → YAML, for the benchmark's configuration and for the settings of each system."""
    systems = {system.name: _settings_of(system) for system in record.systems}
    texts = {
        "Configuration": dict(record.config),
        "Settings of each system": {name: values for name, values in systems.items() if values},
    }
    return {
        title: yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
        for title, values in texts.items()
        if values
    }


def _settings_of(system: SystemRecord) -> dict[str, Json]:
    """Return the settings of a system's parts, its rules of the published protocol, and how it was computed."""
    told = {
        "rules of the published protocol": published_rules(system),
        "how it was computed": [part.describe() for part in system.computed],
    }
    return {**system.settings, **{title: values for title, values in told.items() if values}}


def _best_first(summary: Summary, task: str) -> list[SystemSummary]:
    return sorted((row for row in summary.rows if task in row.scores), key=lambda row: -row.scores[task])


def _highest_score(summary: Summary) -> float:
    """Return the end of the scale of all bars: the highest score, ours or published, and at least 0.01."""
    scores = [score for row in summary.rows for score in row.scores.values()]
    published = [score.value for row in summary.rows for score in row.published.values()]
    return max([0.01, *scores, *published])


def _extent(summary: Summary) -> tuple[float, float] | None:
    """Return the ends of the scale of all differences and their intervals, and 0; None if nothing was compared."""
    ends = [end for row in summary.rows if row.comparison for end in row.comparison.interval or ()]
    drawn = [0.0, *ends, *(row.comparison.difference for row in summary.rows if row.comparison)]
    return (min(drawn), max(drawn)) if any(drawn) else None
