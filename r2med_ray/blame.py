"""Finds the documents or queries that a model fails on, by halving what it fails on.

A model's own error says neither which text it read nor whether another text would have done. So the halves of a batch
that fails are tried alone, and their halves, down to single items.
"""

import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

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

logger = logging.getLogger(__name__)

T = TypeVar("T")

NOT_OF_ONE_ITEM = (ArtifactError, CapacityError, ConfigError, NotAtHand, StageError, StoppedError)
"""Errors that no single document or query is to blame for: settings, the store, and services, whose errors name the
texts of a request already."""

PLURALS = {"document": "documents", "query": "queries", "query and document": "pairs of query and document"}

Fails: TypeAlias = Callable[[Sequence[int]], str | None]
"""Tries the items at some positions together. Returns why they fail, or None if they don't."""

CauseOf: TypeAlias = Callable[[Exception], str | None]
"""Returns why items failed, in words; None for an error that none of them is to blame for."""


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


def cause_of(error: Exception) -> str | None:
    """Return why items failed, in words; None for an error of `NOT_OF_ONE_ITEM`."""
    return None if isinstance(error, NOT_OF_ONE_ITEM) else in_words(error)


@dataclass(frozen=True, slots=True)
class Failed:
    """What could not be made."""

    cause: str


def tried(make: Callable[[], T], find_cause: CauseOf = cause_of) -> T | Failed:
    """Return what `make` makes, or why it fails. An error that `find_cause` has no words for is raised again."""
    try:
        return make()
    except Exception as error:  # a model may raise anything
        cause = find_cause(error)
        if cause is None:
            raise
        return Failed(cause)


def failing(make: Callable[[Sequence[int]], object], find_cause: CauseOf = cause_of) -> Fails:
    """Return a function that says why `make` fails for some positions; None if it doesn't.

    Args:
        make: makes something of the items at some positions.
        find_cause: an error that it has no words for is raised again.
    """

    def fails(positions: Sequence[int]) -> str | None:
        made = tried(lambda: make(positions), find_cause)
        return made.cause if isinstance(made, Failed) else None

    return fails


def made_or_blamed(
    make: Callable[[Sequence[int]], T],
    names: Sequence[str],
    *,
    what: str,
    stage: str,
    unit: str,
    find_cause: CauseOf = cause_of,
) -> T:
    """Return what `make` makes of all items. If it fails twice, what is to blame for it is looked for.

    Args:
        make: makes something of the items at some positions.
        names: of the items.
        what: the items are, a key of `PLURALS`.
        stage: the arrow of the flow, for errors.
        unit: all items, in words, for errors.
        find_cause: an error that it has no words for is raised at once.

    Raises:
        StageError: `make` failed twice; names the item that is to blame.
    """

    def make_all() -> T:
        return make(range(len(names)))

    made = tried(make_all, find_cause)
    if isinstance(made, Failed):
        note_first_failure(StageError(stage, unit, made.cause))
        made = tried(make_all, find_cause)
    if not isinstance(made, Failed):
        return made
    found = blame(failing(make, find_cause), len(names), made.cause, most=1)
    raise StageError(stage, unit, said_of(what, found, names, made.cause))


def note_first_failure(failure: StageError) -> None:
    """Say in the log that a piece of work failed, and is tried again."""
    logger.warning("%s. It is tried again, by another worker", failure)


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
