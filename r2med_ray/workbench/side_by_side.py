"""Work of a job at the same time, in threads. All of it has ended whenever one of these functions ends."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from r2med_ray.errors import StoppedError

T = TypeVar("T")


def side_by_side(here: Callable[[], T], beside: Callable[[], object], stop: threading.Event) -> T:
    """Do one thing in this thread and another in a second one. Whichever fails first has the other stopped.

    Args:
        here: what this thread does; an interruption of the process reaches it alone.
        beside: what the second thread does.
        stop: heeded by both, which raise `StoppedError` soon after it is set; not set when this ends.

    Returns:
        What `here` returned.

    Raises:
        BaseException: whatever ended the first half that failed.
    """
    try:
        with ThreadPoolExecutor(max_workers=1) as pool:
            try:
                other = pool.submit(beside)
                other.add_done_callback(lambda done: stop.set() if done.exception() else None)
                result = here()
                other.result()
            except StoppedError as stopped:
                raise other.exception() or stopped from None
            except BaseException:
                stop.set()
                raise
    finally:
        stop.clear()  # both have ended, and whoever works next must not be stopped
    return result


def at_once(work: Sequence[Callable[[], object]]) -> None:
    """Do several things, the first in this thread and each other one in a thread of its own.

    Raises:
        BaseException: what ended the first of them, in their order, that failed.
    """
    first, *others = work
    with ThreadPoolExecutor(max_workers=max(1, len(others))) as pool:
        running = [pool.submit(each) for each in others]
        first()
    for each in running:
        each.result()
