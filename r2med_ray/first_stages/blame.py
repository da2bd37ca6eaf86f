"""Finds the documents or queries that a model fails on, by halving what it fails on.

A model's own error says neither which text it read nor whether another text would have done. So the halves of a batch
that fails are tried alone, and their halves, down to single items.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from r2med_ray.errors import (
    ArtifactError,
    CapacityError,
    ConfigError,
    NotAtHand,
    R2MedError,
    StageError,
    StoppedError,
)
from r2med_ray.secrets import scrubbed

NOT_OF_ONE_ITEM = (ArtifactError, CapacityError, ConfigError, NotAtHand, StageError, StoppedError)
"""Errors that no single document or query is to blame for: settings, the store, and services, whose errors name the
texts of a request already."""

PLURALS = {"document": "documents", "query": "queries", "query and document": "pairs of query and document"}

Fails: TypeAlias = Callable[[Sequence[int]], str | None]
"""Tries the items at some positions together. Returns why they fail, or None if they don't."""


class Failing(NamedTuple):
    """Items that fail together, and none of whose parts was seen to fail."""

    positions: range
    cause: str


@dataclass(slots=True)
class Blame:
    """What is to blame for a batch that fails."""

    alone: list[Failing] = field(default_factory=list)
    """Single items that fail alone, in their order."""

    together: list[Failing] = field(default_factory=list)
    """Batches that fail although both of their halves work."""

    some_work: bool = False
    """Whether anything worked. If not, the model may be broken, and nothing is to blame for certain."""

    @property
    def found(self) -> int:
        return len(self.alone) + len(self.together)


def blame(fails: Fails, count: int, cause: str, *, most: int) -> Blame:
    """Look for what is to blame for a failure.

    Args:
        fails: tries items.
        count: the number of items; all together fail.
        cause: why they fail.
        most: how many are looked for. The work for one item costs about as much as all items twice.
    """
    found = Blame()
    if not count:
        return found
    _look_into(found, fails, Failing(range(count), cause), most)
    if not found.some_work and count > 1 and found.found < count:
        found.some_work = fails([count - 1]) is None
    return found


def _look_into(found: Blame, fails: Fails, failing: Failing, most: int) -> None:
    positions = failing.positions
    if len(positions) == 1:
        found.alone.append(failing)
        return
    middle = len(positions) // 2
    a_half_fails = False
    for half in (positions[:middle], positions[middle:]):
        if found.found >= most:
            return
        cause = fails(half)
        found.some_work |= cause is None
        if cause is not None:
            a_half_fails = True
            _look_into(found, fails, Failing(half, cause), most)
    if not a_half_fails:
        found.together.append(failing)


def failing(make: Callable[[Sequence[int]], object]) -> Fails:
    """Return a function that says why `make` fails for some positions; None if it doesn't."""

    def fails(positions: Sequence[int]) -> str | None:
        try:
            make(positions)
        except NOT_OF_ONE_ITEM:
            raise
        except Exception as error:  # a model may raise anything
            return in_words(error)
        return None

    return fails


def said_of(what: str, found: Blame, names: Sequence[str], cause: str) -> str:
    """Return the message of a failure, with the names of what is to blame.

    Args:
        what: a key of `PLURALS`.
        found: what was found.
        names: of all items.
        cause: why all of them fail together.
    """
    if not found.some_work and len(names) > 1:
        return f"neither {what} {names[0]!r} nor {what} {names[-1]!r} works, even alone: {cause}"
    if not found.found:
        return f"{cause} (the parts of the batch work when they are tried alone)"
    first = min([*found.alone, *found.together], key=lambda one: one.positions.start)
    return with_names(what, [names[position] for position in first.positions], first.cause)


def in_words(error: Exception) -> str:
    """Return what went wrong in one line; with class and line for an error that isn't of this package."""
    if isinstance(error, R2MedError):
        return str(error)
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return scrubbed(f"{type(error).__name__}: {said}{where}")


def with_names(what: str, names: Sequence[str], cause: str) -> str:
    """Return a cause with the names of what is to blame; a cause that has the name already stays as it is.

    Args:
        what: a key of `PLURALS`.
        names: ids, or the ids of a pair with a blank between them.
        cause: why they fail.
    """
    if len(names) == 1:
        return cause if repr(names[0]) in cause else f"{what} {names[0]!r}: {cause}"
    return f"{len(names)} {PLURALS[what]}, from {names[0]!r} to {names[-1]!r}, fail only together: {cause}"
