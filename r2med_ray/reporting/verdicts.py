"""Judges our figures by published ones: within tolerance, outside, a known deviation, or not computed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from r2med_ray.evaluation.deviations import Deviation, known_deviations
from r2med_ray.evaluation.published import PublishedScore, published
from r2med_ray.reporting.nano_figures import nano_figures
from r2med_ray.reporting.summary import Summary, SystemSummary, published_scores, suite_tasks

WITHIN, OUTSIDE, KNOWN = "within", "outside", "known deviation"
NOT_RUN = "not run"
MEAN = "Mean"

_ROUNDING = 1e-9
"""Room for the rounding of binary fractions: 0.12029 − 0.12024 must not be more than 0.00005."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One figure of ours beside the published figure, both on the scale 0 to 1."""

    system: str
    task: str
    """The task, or the mean over a suite. The measure follows if it is not the main one."""

    ours: float | None
    published: float
    tolerance: float
    verdict: str
    """`within`, `outside`, `known deviation`, `not run`, or `needs …`."""

    reasons: tuple[Deviation, ...] = ()
    """Known reasons why our figure may be off; empty if it is within tolerance or absent."""

    source: str

    detail_of: str | None = None
    """The measure, if this is the verdict of one task in a measure other than the main one; else None.

    Such a verdict is counted and not listed if our figure is within tolerance.
    """

    @property
    def is_listed(self) -> bool:
        return self.detail_of is None or self.verdict != WITHIN

    @property
    def difference(self) -> float | None:
        return None if self.ours is None else self.ours - self.published


def verdicts(summary: Summary) -> list[Verdict]:
    """Judge every system in every measure, on every task and suite that has a comparable published figure."""
    found = [verdict for row in summary.rows for verdict in _of_system(summary, row)]
    return [*found, *_out_of_reach(summary, found)]


def _of_system(summary: Summary, row: SystemSummary) -> Iterator[Verdict]:
    main = summary.record.main_measure
    yield from _in_measure(summary, row, main)
    for measure in summary.record.measures:
        if measure != main:
            for found in _in_measure(summary, row, measure):
                detail_of = measure if found.task in row.published else None
                yield replace(found, task=f"{found.task}, {measure}", detail_of=detail_of)
    for score, ours, need, tolerance in nano_figures(summary, row.system.name):
        title = score.task if score.measure == main else f"{score.task}, {score.measure}"
        yield replace(_of_task(row.system.name, score, ours, need, tolerance), task=title)


def _in_measure(summary: Summary, row: SystemSummary, measure: str) -> Iterator[Verdict]:
    """Yield a verdict per task and per mean. A task that was not run has a verdict in the main measure only."""
    record, system = summary.record, row.system.name
    ours = {task: result.evaluation.means[measure] for task, result in record.results_of(system).items()}
    needs = record.needs_of(system)
    by_task = {
        task: _of_task(system, score, ours.get(task), needs.get(task))
        for task, score in published_scores(record, row.system, measure).items()
        if task in ours or measure == record.main_measure
    }
    yield from by_task.values()
    suites = suite_tasks(record)
    for suite, label in summary.averaged_suites.items():
        if by_task.keys() >= set(suites[suite]):
            yield _of_mean(f"{MEAN}{label}", [by_task[task] for task in suites[suite]])


def _of_task(
    system: str, score: PublishedScore, ours: float | None, needs: str | None, tolerance: float | None = None
) -> Verdict:
    known = known_deviations()
    tolerance = tolerance or known.tolerance(score).within
    difference = None if ours is None else abs(ours - score.value)
    verdict, reasons = WITHIN, known.reasons(score)
    if difference is None:
        verdict, reasons = (f"needs {needs}" if needs else NOT_RUN), ()
    elif difference <= tolerance + _ROUNDING:
        reasons = ()
    elif any(difference <= reason.up_to + _ROUNDING for reason in reasons if reason.up_to):
        verdict = KNOWN
    else:
        verdict = OUTSIDE
    return Verdict(
        system=system,
        task=score.task,
        ours=ours,
        published=score.value,
        tolerance=tolerance,
        verdict=verdict,
        reasons=reasons,
        source=_source(score),
    )


def _of_mean(title: str, parts: list[Verdict]) -> Verdict:
    """Judge a mean over tasks.

    There is a mean only if all its tasks have a figure. A mean beyond the tolerance is a known deviation if no task
    is outside.
    """
    found = [part.ours for part in parts if part.ours is not None]
    missing = dict.fromkeys(part.verdict for part in parts if part.ours is None)
    ours = None if missing else math.fsum(found) / len(found)
    published_mean = math.fsum(part.published for part in parts) / len(parts)
    tolerance = max(part.tolerance for part in parts)
    reasons: tuple[Deviation, ...] = ()
    if ours is None:
        lacking = len(parts) - len(found)
        verdict = next(iter(missing)) if len(missing) == 1 else f"needs {lacking} of {len(parts)} tasks"
    elif abs(ours - published_mean) <= tolerance + _ROUNDING:
        verdict = WITHIN
    else:
        verdict = OUTSIDE if any(part.verdict == OUTSIDE for part in parts) else KNOWN
        reasons = tuple(dict.fromkeys(reason for part in parts for reason in part.reasons))
    return Verdict(
        system=parts[0].system,
        task=title,
        ours=ours,
        published=published_mean,
        tolerance=tolerance,
        verdict=verdict,
        reasons=reasons,
        source=", ".join(dict.fromkeys(part.source for part in parts)),
    )


def _out_of_reach(summary: Summary, found: list[Verdict]) -> Iterator[Verdict]:
    """Yield the means of published systems that need more than files, if the benchmark has `when_missing: skip`."""
    record, known = summary.record, known_deviations()
    if record.config.get("when_missing") != "skip" or not found:
        return
    there = {score.system for row in summary.rows for score in row.published.values()}
    tasks = {task.name for task in record.tasks}
    by_system: dict[str, list[PublishedScore]] = {}
    for score in published(measure=record.main_measure):
        if score.task in tasks and score.system not in there and known.need(score):
            by_system.setdefault(score.system, []).append(score)
    for system, scores in by_system.items():
        yield _of_mean(MEAN, [_of_task(system, score, None, known.need(score)) for score in scores])


def _source(score: PublishedScore) -> str:
    return f"{score.source}, MTEB's prompts" if score.family == "mteb" else score.source
