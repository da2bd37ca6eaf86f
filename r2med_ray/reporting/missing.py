"""Keeps account of results that are left out because something they need is not at hand."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from r2med_ray.errors import NotAtHand
from r2med_ray.reporting.record import MissingRecord

logger = logging.getLogger(__name__)


class Missing:
    """The account of one benchmark.

    Args:
        when_missing: `error` keeps none: the first thing that is not at hand ends the benchmark.
    """

    def __init__(self, when_missing: Literal["error", "skip"]) -> None:
        self.records: list[MissingRecord] = []
        self._when_missing = when_missing

    @contextlib.contextmanager
    def noted(self, task: str, systems: Iterable[str]) -> Iterator[None]:
        """Note for these systems what the block doesn't find; every other error passes.

        Raises:
            NotAtHand: under `error`.
        """
        try:
            yield
        except NotAtHand as error:
            if self._when_missing == "error":
                raise
            self.records += [MissingRecord(system=system, task=task, needs=error.what) for system in systems]

    def require_some(self, num_results: int) -> None:
        """Refuse a benchmark in which nothing could be computed.

        Raises:
            NotAtHand: lists what is needed.
        """
        if num_results == 0 and self.records:
            lines = "".join(f"\n  {line}" for line in needs(self.records))
            raise NotAtHand("all results", f"nothing could be computed, for all of it needs what is not here:{lines}")
        for line in needs(self.records):
            logger.warning("left out: %s", line)


def needs(records: Sequence[MissingRecord]) -> list[str]:
    """Return one line per thing that is needed, with the systems and tasks that wait for it: a few by name."""
    of_need: dict[str, list[MissingRecord]] = {}
    for record in records:
        of_need.setdefault(record.needs, []).append(record)
    return [
        f"needs {what}: {_counted({row.system: None for row in left_out}, 'systems')} on "
        f"{_counted({row.task: None for row in left_out}, 'tasks')}"
        for what, left_out in of_need.items()
    ]


def _counted(names: Mapping[str, None], what: str) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} {what}"
