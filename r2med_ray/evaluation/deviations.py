"""Tables by which a published figure is judged: tolerances, known deviations, and systems out of reach.

A system is out of reach if it can't be run from files alone. The rows are in `known_deviations.yaml`. Each row has
its reason.
"""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.published import PublishedScore, published
from r2med_ray.settings.registry import nearest

TABLE = Path(__file__).with_name("known_deviations.yaml")

Names = Annotated[tuple[str, ...], Field(min_length=1)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    systems: Names
    """Patterns such as `hyde/*`, matched with `PublishedScore.system`."""

    tasks: Names = ("*",)
    measures: Names = ("*",)

    def covers(self, score: PublishedScore) -> bool:
        return (
            _matches(self.systems, score.system)
            and _matches(self.tasks, score.task)
            and _matches(self.measures, score.measure)
        )


class Tolerance(_Row):
    """How far our figure may be off, on the scale 0 to 1."""

    within: float = Field(gt=0)
    because: str


class OutOfReach(_Row):
    """A published system that files alone can't reproduce."""

    needs: str


class Deviation(_Row):
    """A reason why our figure may differ from a published one."""

    name: str
    up_to: float | None = Field(default=None, gt=0)
    """The largest difference that the reason is known to explain; None if nobody has measured it."""

    because: str
    source: str


class Deviations(BaseModel):
    """The three tables of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tolerances: tuple[Tolerance, ...]
    out_of_reach: tuple[OutOfReach, ...]
    deviations: tuple[Deviation, ...]

    def tolerance(self, score: PublishedScore) -> Tolerance:
        """Return the first tolerance that covers a figure.

        Raises:
            ConfigError: no tolerance covers the figure.
        """
        for row in self.tolerances:
            if row.covers(score):
                return row
        raise ConfigError(f"no tolerance covers {score.system!r} on {score.task}; end the table with systems: ['*']")

    def reasons(self, score: PublishedScore) -> tuple[Deviation, ...]:
        """Return the known deviations that cover a figure."""
        return tuple(row for row in self.deviations if row.covers(score))

    def need(self, score: PublishedScore) -> str | None:
        """Return what a published system needs besides files; None if files are enough."""
        return next((row.needs for row in self.out_of_reach if row.covers(score)), None)


@cache
def known_deviations() -> Deviations:
    """Return the tables that come with the package."""
    return load_deviations(TABLE)


def load_deviations(path: Path) -> Deviations:
    """Read and check tables.

    Raises:
        ConfigError: the file has a wrong value, or names a system, task or measure that has no published figure.
    """
    try:
        tables = Deviations.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"{path}: {error}") from error
    known = {name: dict.fromkeys(getattr(score, name) for score in published()) for name in _FIELDS}
    for row in (*tables.tolerances, *tables.out_of_reach, *tables.deviations):
        for name, patterns in zip(_FIELDS, (row.systems, row.tasks, row.measures), strict=True):
            _require_known(name, patterns, known[name], path)
    return tables


_FIELDS = ("system", "task", "measure")


def _require_known(field: str, patterns: Iterable[str], known: Collection[str], path: Path) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise ConfigError(f"{path}: nothing is published for the {field} {pattern!r}.{nearest(pattern, known)}")


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
