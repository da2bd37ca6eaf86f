"""How far a stage is, as a bar on a terminal or as lines in a job log; and the report of what it did. No Ray."""

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from rich.progress import Progress as RichProgress
from rich.progress import TextColumn, TimeRemainingColumn

from r2med_ray.first_stages.preparation import Left, W

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """What a stage did."""

    documents: int
    seconds: float
    stored_before: int
    """Units that the store had already."""

    usage: Mapping[str, int] = field(default_factory=dict)
    """What a service counted: texts, tokens, requests."""

    cost: str = ""
    """The same in a sentence, with the price; empty where nothing was counted."""


def follow(
    label: str, left: Left[W], done: Iterable[Mapping[str, float]], cost: Callable[[Mapping[str, int]], str]
) -> StageReport:
    """Have work done and say how far it is.

    Args:
        label: what is being done.
        left: the work.
        done: does one item of the work whenever it is asked for the next, and gives the numbers of that item:
            `documents`, and what a service counted.
        cost: puts a price on the sums of what a service counted.
    """
    usage: Counter[str] = Counter()
    with Progress(label, len(left.work), left.num_documents) as progress:
        for numbers in done:
            progress.add(int(numbers["documents"]))
            usage.update({name: int(count) for name, count in numbers.items() if name != "documents"})
    return progress.report(stored_before=left.stored, usage=usage, cost=cost(usage))


class Progress:
    """Counts units and documents, with the rate and the time left.

    Args:
        label: what is being done.
        num_units: shards or queries in all.
        num_documents: documents in all; the rate and the time left are worked out from them.
        every_s: a line in the log at most this often.
    """

    def __init__(self, label: str, num_units: int, num_documents: int, *, every_s: float = 5.0) -> None:
        self._label = label
        self._num_units = num_units
        self._num_documents = num_documents
        self._every_s = every_s
        self._started = self._last = time.monotonic()
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
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self._label, total=self._num_documents, rate="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, documents: int) -> None:
        """One more unit, with this many documents, is done."""
        self._units += 1
        self.documents += documents
        now = time.monotonic()
        rate = self.documents / max(now - self._started, 1e-9)
        if self._bar is not None:
            self._bar.update(self._task, advance=documents, rate=f"{rate:.0f} docs/s")
        if self._bar is None and (self._units == self._num_units or now - self._last >= self._every_s):
            self._last = now
            left = (self._num_documents - self.documents) / max(rate, 1e-9)
            logger.info(
                "%s: %d of %d, %d of %d documents, %.0f docs/s, %.0f s left",
                self._label, self._units, self._num_units, self.documents, self._num_documents, rate, left,
            )  # fmt: skip
