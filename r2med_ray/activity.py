"""What this process is doing now: the work keeps count itself, and whoever tells of it reads the counts."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

logger = logging.getLogger(__name__)

GAUGES_EVERY_S = 5.0
"""Ray forgets a gauge that nobody sets for some 20 seconds, so whoever has one sets it as often as this."""

_now: list["Activity"] = []
_counting: list[Callable[[int, int], None]] = []
_turn = threading.Lock()


class Activity:
    """A piece of work that is going on, and how far it is.

    Args:
        label: what is being done.
        total: how many items there are; 0 where nothing is counted.
        unit: what the items are, e.g. documents.
    """

    def __init__(self, label: str, total: int = 0, unit: str = "") -> None:
        self.label = label
        self.total = total
        self.unit = unit
        self.done = 0
        self.tokens = 0
        """Tokens of what is done, where they are known."""

        self.queue: dict[str, int] = {}
        """What waits, in words → how much of it, e.g. `shards waiting`."""

        self.inside: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Returns the items, and their tokens where they are known, that are done inside of larger pieces which are
        not."""

        self._began = time.monotonic()

    def add(self, done: int, tokens: int = 0) -> None:
        """Count what was just done, in any thread."""
        with _turn:
            self.done += done
            self.tokens += tokens

    def so_far(self) -> tuple[int, int]:
        """Return the items and the tokens that are done, those inside of larger pieces included."""
        items, tokens = self.inside()
        return min(self.done + items, self.total), self.tokens + tokens

    def line(self) -> str:
        """Say how far it is."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        queue = [f"{count:,} {what}" for what, count in self.queue.items()]
        if not self.total:
            return ", ".join([f"{self.label}: {seconds:.0f} s", *queue])
        done, tokens = self.so_far()
        told = [f"{self.label}: {done:,} of {self.total:,} {self.unit}", f"{done / seconds:,.3g} {self.unit}/s"]
        if tokens:
            told.append(f"{tokens / seconds:,.0f} tokens/s")
        if done:
            told.append(f"{_span((self.total - done) * seconds / done)} left")
        return ", ".join([*told, *queue])


class Inside:
    """Counts what is done inside of one larger piece after the other, in this process."""

    def __init__(self) -> None:
        self._items = self._tokens = 0

    def __call__(self) -> tuple[int, int]:
        return self._items, self._tokens

    def advance(self, items: int, tokens: int) -> None:
        """Count what was just done."""
        self._items += items
        self._tokens += tokens

    def begin_again(self) -> None:
        """The piece is done, and another one begins."""
        self._items = self._tokens = 0


def advanced(items: int, tokens: int = 0) -> None:
    """Tell whoever counts in this process that some items of a larger piece are done, e.g. texts of a shard."""
    with _turn:
        counting = list(_counting)
    for count in counting:
        count(items, tokens)


@contextmanager
def counted(count: Callable[[int, int], None]) -> Iterator[None]:
    """Have a function told of what is done in the block inside of larger pieces: the items, and their tokens."""
    with _turn:
        _counting.append(count)
    try:
        yield
    finally:
        with _turn:
            _counting.remove(count)


def doing(label: str, total: int = 0, unit: str = "") -> AbstractContextManager[Activity]:
    """Return a context in which a piece of work is told of. For the arguments see `Activity`."""
    return going_on(Activity(label, total, unit))


@contextmanager
def going_on(activity: Activity) -> Iterator[Activity]:
    """Tell of a piece of work as long as the block runs."""
    with _turn:
        _now.append(activity)
    try:
        yield activity
    finally:
        with _turn:
            _now.remove(activity)


def lines() -> list[str]:
    """Say how far all work is that is going on, in the order in which it was begun."""
    with _turn:
        activities = list(_now)
    return [activity.line() for activity in activities]


def told(every_s: float = 60.0) -> AbstractContextManager[None]:
    """Return a context in which a line in the log says once a minute what is being done."""
    began = time.monotonic()

    def tell() -> None:
        if now := lines():
            logger.info("after %.0f min: %s", (time.monotonic() - began) / 60, "; ".join(now))

    return every(every_s, tell)


@contextmanager
def every(seconds: float, do: Callable[[], None]) -> Iterator[None]:
    """Call a function again and again in a thread, as long as the block runs; for the first time after `seconds`."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(seconds):
            do()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
