"""The measures of a benchmark and the scales on which a report writes their figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from r2med_ray.evaluation.measure_entries import own_function
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.significance import Comparison
from r2med_ray.reporting.columns import Column
from r2med_ray.reporting.formats import interval, p_value, plain, plain_interval, points, signed_plain, signed_points
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.settings.own_measure import OwnMeasureConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How the figures of a measure are written for people."""

    words: str
    """Words about the scale, written after the measure's name."""

    factor: float
    """What figures are multiplied by."""

    value: Callable[[float | None], str]
    difference: Callable[[float | None], str]
    interval: Callable[[tuple[float, float] | None], str]


POINTS = Scale(words="on a scale of 0–100", factor=100.0, value=points, difference=signed_points, interval=interval)
"""The scale of a measure whose values are between 0 and 1."""

PLAIN = Scale(words="on its own scale", factor=1.0, value=plain, difference=signed_plain, interval=plain_interval)
"""The scale of any other measure: its figures are written as they are."""


def comparison_columns(compared: Sequence[Comparison | None], scale: Scale) -> list[Column]:
    """Return the columns of comparisons, one row each."""
    return [
        Column(title="Δ", values=[found.difference if found else None for found in compared], write=scale.difference),
        Column(
            title="95% interval",
            values=[found.interval if found else None for found in compared],
            write=scale.interval,
        ),
        Column(title="p", values=[found.p_adjusted if found else None for found in compared], write=p_value),
    ]


def measures_of(record: BenchmarkRecord) -> dict[str, Measure]:
    """Return name → measure for all measures of a benchmark.

    The bounds of a measure of the user's own are read from the configuration; its function is not imported.
    """
    entries = [entry for entry in record.config.get("measures", ()) if isinstance(entry, Mapping)]
    own = {entry.name: own_function(entry) for entry in map(OwnMeasureConfig.model_validate, entries)}
    return {
        name: Measure.defined(name, own[name]) if name in own else Measure.parse(name) for name in record.measures
    }


def scale_of(record: BenchmarkRecord, measure: str) -> Scale:
    """Return how the figures of a measure are written."""
    return POINTS if measures_of(record)[measure].is_share else PLAIN
