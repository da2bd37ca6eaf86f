"""Ending work between two of its items. No Ray."""

import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

from r2med_ray.errors import StoppedError

T = TypeVar("T")


def until_stopped(stop: threading.Event, items: Iterable[T]) -> Iterator[T]:
    """Yield items until there are none left.

    Raises:
        StoppedError: `stop` was set before the next of them.
    """
    waiting = iter(items)
    while not stop.is_set():
        try:
            item = next(waiting)
        except StopIteration:
            return
        yield item
    raise StoppedError("stopped, because what ran beside it failed")
