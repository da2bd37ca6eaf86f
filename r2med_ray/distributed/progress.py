"""How far a stage is, as a bar on a terminal or as lines in a job log; and the report of what it did. No Ray."""

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TypeAlias

from rich.progress import Progress as RichProgress
from rich.progress import TextColumn, TimeRemainingColumn

from r2med_ray.activity import Inside, counted, doing, every
from r2med_ray.first_stages.making import FOUND, READ_TOKENS, WORKED_S
from r2med_ray.first_stages.preparation import Left, W

logger = logging.getLogger(__name__)

WAITING = "units waiting"

BAR_EVERY_S = 2.0
"""Seconds between two looks at what is done inside of units, for a bar on a terminal."""

OWN_NUMBERS = ("documents", READ_TOKENS, WORKED_S, FOUND)
"""Numbers of an item that no service counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """What a stage did."""

    documents: int
    seconds: float
    stored_before: int
    """Units that the store had already, or got from another job meanwhile."""

    usage: Mapping[str, int] = field(default_factory=dict)
    """What a service counted: texts, tokens, requests."""

    cost: str = ""
    """The same in a sentence, with the price; empty where nothing was counted."""

    slow: str = ""
    """What the first piece said to be far too slow, with the reason; empty if nothing."""


Judge: TypeAlias = Callable[[Mapping[str, float], int], str]
"""Is given the numbers of the first piece and how many documents are left; returns `StageReport.slow`."""


def follow(
    label: str,
    left: Left[W],
    done: Iterable[Mapping[str, float]],
    cost: Callable[[Mapping[str, int]], str],
    inside: Callable[[], tuple[int, int]] | None = None,
    judge: Judge = lambda numbers, left: "",
) -> StageReport:
    """Have work done and say how far it is.

    Args:
        label: what is being done.
        left: the work.
        done: does one item of the work whenever it is asked for the next, and gives the numbers of that item:
            `documents`, `READ_TOKENS` where they are known, and what a service counted; or `FOUND`.
        cost: puts a price on the sums of what a service counted.
        inside: returns what workers have done inside of the items that they have in hand: documents, and tokens where
            they are known. If it is left out, `done` works in this process.
        judge: judges the first item.
    """
    usage: Counter[str] = Counter()
    found, here, slow = 0, Inside(), ""
    progress = Progress(label, len(left.work), left.num_documents, inside or here)
    with progress, counted(here.advance):
        for numbers in done:
            here.begin_again()
            if FOUND in numbers:
                progress.pass_over(int(numbers[FOUND]))
                found += 1
                continue
            if not progress.documents:
                slow = judge(numbers, progress.left_after(int(numbers["documents"])))
            progress.add(int(numbers["documents"]), int(numbers.get(READ_TOKENS, 0)))
            usage.update({name: int(count) for name, count in numbers.items() if name not in OWN_NUMBERS})
    report = progress.report(stored_before=left.stored + found, usage=usage, cost=cost(usage))
    return replace(report, slow=slow)


class Progress:
    """Counts units and documents, with the rate and the time left.

    Args:
        label: what is being done.
        num_units: shards or queries in all.
        num_documents: documents in all; the rate and the time left are worked out from them.
        inside: returns the documents and tokens that are done inside of units that are not.

    The log has a line after the first unit and after the last. Between them, `activity` has the counts.
    """

    def __init__(
        self, label: str, num_units: int, num_documents: int, inside: Callable[[], tuple[int, int]] | None = None
    ) -> None:
        self._label = label
        self._num_units = num_units
        self._num_documents = num_documents
        self._inside = inside
        self._started = time.monotonic()
        self._doing = ExitStack()
        self._units = self.documents = 0
        self._bar = (
            RichProgress(
                *RichProgress.get_default_columns()[:-1], TextColumn("{task.fields[rate]}"), TimeRemainingColumn()
            )
            if sys.stderr.isatty()
            else None
        )

    def report(self, *, stored_before: int, usage: Mapping[str, int] | None = None, cost: str = "") -> StageReport:
        """Say what was done so far."""
        return StageReport(
            documents=self.documents,
            seconds=time.monotonic() - self._started,
            stored_before=stored_before,
            usage=dict(usage or {}),
            cost=cost,
        )

    def __enter__(self) -> "Progress":
        self._activity = self._doing.enter_context(doing(self._label, self._num_documents, "documents"))
        self._activity.queue[WAITING] = self._num_units
        if self._inside is not None:
            self._activity.inside = self._inside
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self._label, total=self._num_documents, rate="")
            self._doing.enter_context(every(BAR_EVERY_S, self._draw))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._doing.close()
        if self._bar is not None:
            self._bar.stop()

    def left_after(self, documents: int) -> int:
        """Return how many documents are left when so many more are done."""
        return self._num_documents - self.documents - documents

    def pass_over(self, documents: int) -> None:
        """Another job has made a unit with this many documents, so there is less to do."""
        self._num_units -= 1
        self._num_documents -= documents
        self._activity.total = self._num_documents
        self._activity.queue[WAITING] = self._num_units - self._units
        if self._bar is not None:
            self._bar.update(self._task, total=self._num_documents)

    def add(self, documents: int, tokens: int = 0) -> None:
        """One more unit is done, with this many documents, and tokens where they are known."""
        self._units += 1
        self.documents += documents
        self._activity.add(documents, tokens)
        self._activity.queue[WAITING] = self._num_units - self._units
        rate = self.documents / max(time.monotonic() - self._started, 1e-9)
        if self._bar is not None:
            self._draw()
        if self._bar is None and self._units in (1, self._num_units):
            left = (self._num_documents - self.documents) / max(rate, 1e-9)
            logger.info(
                "%s: %d of %d, %d of %d documents, %.0f docs/s, %.0f s left",
                self._label, self._units, self._num_units, self.documents, self._num_documents, rate, left,
            )  # fmt: skip

    def _draw(self) -> None:
        """Bring the bar up to what is done, inside of units too."""
        if self._bar is not None:
            done, _ = self._activity.so_far()
            rate = done / max(time.monotonic() - self._started, 1e-9)
            self._bar.update(self._task, completed=done, rate=f"{rate:.0f} docs/s")
