"""Reads the `measures:` entries of a benchmark file."""

from collections.abc import Sequence
from functools import partial

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.own_measures import OwnFunction
from r2med_ray.settings.faults import Faults
from r2med_ray.settings.own_measure import OwnMeasureConfig


def read_measures(entries: Sequence[str | OwnMeasureConfig]) -> tuple[Measure, ...]:
    """Return the measures that the entries name, in order. The function of a measure of the user's own is imported.

    Raises:
        ConfigError: there is no such measure, or no such function. The message lists all, each with its key.
    """
    faults = Faults()
    measures = [faults.tried(partial(_read, position, entry)) for position, entry in enumerate(entries)]
    faults.require_none()
    return tuple(measure for measure in measures if measure)


def _read(position: int, entry: str | OwnMeasureConfig) -> Measure:
    if isinstance(entry, str):
        return Measure.parse(entry)
    own = own_function(entry)
    try:
        own.load()
    except ConfigError as error:
        raise ConfigError(f"measures.{position}.class: {error}") from error
    try:
        return Measure.defined(entry.name, own)
    except ConfigError as error:
        raise ConfigError(f"measures.{position}.name: {error}") from error


def own_function(entry: OwnMeasureConfig) -> OwnFunction:
    """Return the path of an entry's function and its bounds. Nothing is imported."""
    low, high = entry.bounds
    return OwnFunction(path=entry.class_, low=low, high=high)
