"""What was done, noted where it happens. Whoever does the work has the log, so no report of it can be dropped."""

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from r2med_ray.distributed.progress import StageReport
from r2med_ray.workbench.longest_first import Lengths

logger = logging.getLogger(__name__)

Price: TypeAlias = Callable[[Mapping[str, int]], str]
"""Usage of a service → what it cost, in words; empty where nothing was used."""


def no_price(usage: Mapping[str, int]) -> str:
    """Return the price of work that no service is paid for."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One kind of work on one thing, all its pieces added up."""

    stage: str
    """The arrow of the flow, e.g. `encode`."""

    unit: str
    """What it was done with or on, e.g. the name of an encoder."""

    report: StageReport


@dataclass(slots=True)
class Worklog:
    """Work by stage and unit, in the order in which it was begun; and what was started and ended for it."""

    _done: dict[tuple[str, str], tuple[StageReport, Price]] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=Counter)
    """Name of a holder → how often it was started."""

    ended: Counter[str] = field(default_factory=Counter)
    lengths: defaultdict[str, Lengths] = field(default_factory=partial(defaultdict, Lengths))
    """Fingerprint of a language model → how long its answers were."""

    _turn: threading.Lock = field(default_factory=threading.Lock)

    def note(self, stage: str, unit: str, report: StageReport, price: Price = no_price) -> None:
        """Add a piece of work; a second piece of the same is added to the first.

        Args:
            stage: the arrow of the flow.
            unit: what it was done with or on.
            report: the report of this piece of work.
            price: says for people what a service's usage cost.
        """
        if report.cost:
            logger.info("%s", report.cost)
        with self._turn:
            before = self._done.get((stage, unit))
            self._done[stage, unit] = _together(before[0], report) if before else report, price

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All work so far."""
        with self._turn:
            return tuple(
                Entry(stage=stage, unit=unit, report=replace(report, cost=price(report.usage)))
                for (stage, unit), (report, price) in self._done.items()
            )

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Count one start and, however the block ends, one ending."""
        self.started[name] += 1
        try:
            yield
        finally:
            self.ended[name] += 1


def _together(first: StageReport, second: StageReport) -> StageReport:
    return StageReport(
        documents=first.documents + second.documents,
        seconds=first.seconds + second.seconds,
        stored_before=max(first.stored_before, second.stored_before),
        usage=Counter(first.usage) + Counter(second.usage),
        slow=second.slow or first.slow,
    )
