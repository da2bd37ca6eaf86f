"""The `measures:` of a benchmark file as measures."""

from collections.abc import Sequence

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.own_measures import OwnFunction
from r2med_ray.settings.own_measure import OwnMeasureConfig


def read_measures(entries: Sequence[str | OwnMeasureConfig]) -> tuple[Measure, ...]:
    """Read names and measures of the user's own, in their order. The functions of the latter are imported.

    Raises:
        ConfigError: there is no such measure, or no such function; names the key in the file.
    """
    measures = []
    for position, entry in enumerate(entries):
        if isinstance(entry, str):
            measures.append(Measure.parse(entry))
            continue
        own = own_function(entry)
        try:
            own.load()
        except ConfigError as error:
            raise ConfigError(f"measures.{position}.class: {error}") from error
        try:
            measures.append(Measure.defined(entry.name, own))
        except ConfigError as error:
            raise ConfigError(f"measures.{position}.name: {error}") from error
    return tuple(measures)


def own_function(entry: OwnMeasureConfig) -> OwnFunction:
    """Return where the function of an entry stands; imports nothing."""
    low, high = entry.bounds
    return OwnFunction(path=entry.class_, low=low, high=high)
