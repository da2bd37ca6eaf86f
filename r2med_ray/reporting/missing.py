"""A list of the results that are left out because something that they need is not at hand."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from r2med_ray.errors import NotAtHand
from r2med_ray.reporting.record import MissingRecord

logger = logging.getLogger(__name__)


class Missing:
    """The results of one benchmark that are left out.

    Args:
        when_missing: under `skip` results are left out and listed. Under `error` the first thing that is not at hand
            ends the benchmark.
    """

    def __init__(self, when_missing: Literal["error", "skip"]) -> None:
        self.records: list[MissingRecord] = []
        self._when_missing = when_missing

    @contextlib.contextmanager
    def noted(self, task: str, systems: Iterable[str]) -> Iterator[None]:
        """Note that these systems are left out if the block raises `NotAtHand`. Other errors are raised as they are.

        Raises:
            NotAtHand: something is not at hand, and `when_missing` is `error`.
        """
        try:
            yield
        except NotAtHand as error:
            if self._when_missing == "error":
                raise
            self.records += [MissingRecord(system=system, task=task, needs=error.what) for system in systems]

    def require_some(self, num_results: int) -> None:
        """Refuse a benchmark in which nothing could be computed; log what is left out of any other.

        Raises:
            NotAtHand: nothing could be computed. The message lists what is needed.
        """
        if num_results == 0 and self.records:
            lines = "".join(f"\n  {line}" for line in needs(self.records))
            raise NotAtHand(
                "all results",
                f"nothing could be computed, because every system needs something that is not here:{lines}",
            )
        for line in needs(self.records):
            logger.warning("left out: %s", line)


def needs(records: Sequence[MissingRecord]) -> list[str]:
    """Return one line per thing that is needed, with the systems and tasks that need it.

    Up to three systems or tasks are named; more are counted.
    """
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
