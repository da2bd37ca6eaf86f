"""Who may ask the search page now: a queue of limited length, and a limit on the questions of each address."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from r2med_ray.serving.search_answers import Offer, Refusal, SearchRequest
from r2med_ray.settings.registry import nearest

MINUTE_S = 60.0


class Gate:
    """Lets so many questions in at once, and so many wait, in the order in which they came.

    Args:
        at_once: questions that are answered at the same time.
        queue: questions that may wait.
    """

    def __init__(self, *, at_once: int, queue: int) -> None:
        self._turns = asyncio.Semaphore(at_once)
        self._places = at_once + queue
        self._inside = 0

    @asynccontextmanager
    async def turn(self, *, within_s: float) -> AsyncIterator[None]:
        """Wait for a turn, and have it for the length of the block.

        Args:
            within_s: the most seconds of the wait.

        Raises:
            Refusal: the queue is full.
            TimeoutError: the turn didn't come in time.
        """
        if self._inside >= self._places:
            raise Refusal(503, f"{self._inside} questions are answered or wait already; ask again", retry_after_s=1)
        self._inside += 1
        try:
            async with asyncio.timeout(within_s):
                await self._turns.acquire()
            try:
                yield
            finally:
                self._turns.release()
        finally:
            self._inside -= 1


class Rate:
    """Counts the questions of each address over the last minute.

    Args:
        per_minute: the most questions of one address.
        clock: the time in seconds.
    """

    def __init__(self, *, per_minute: int, clock: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._asked: dict[str, deque[float]] = {}

    def require(self, address: str) -> None:
        """Count one question.

        Raises:
            Refusal: the address has asked as often as it may; says when it may ask again.
        """
        now = self._clock()
        for other, times in list(self._asked.items()):
            while times and times[0] <= now - MINUTE_S:
                times.popleft()
            if not times:
                del self._asked[other]
        times = self._asked.setdefault(address, deque())
        if len(times) >= self._per_minute:
            wait_s = math.ceil(times[0] + MINUTE_S - now)
            raise Refusal(429, f"{len(times)} questions in a minute; ask again in {wait_s} s", retry_after_s=wait_s)
        times.append(now)


def checked(request: SearchRequest, offer: Offer, *, most_characters: int) -> SearchRequest:
    """Return a question with the names of system and task filled in.

    Raises:
        Refusal: there is no such system or task (404; gives the nearest name), or the question is too long (413).
    """
    if len(request.question) > most_characters:
        raise Refusal(413, f"the question has {len(request.question)} characters; at most {most_characters} are read")
    return request.model_copy(
        update={
            "system": _named("system", request.system, [system.name for system in offer.systems]),
            "task": _named("task", request.task, [task.name for task in offer.tasks]),
        }
    )


def _named(what: str, name: str, known: list[str]) -> str:
    if name and name not in known:
        raise Refusal(404, f"there is no {what} {name!r}.{nearest(name, known)} Known: {', '.join(known)}")
    return name or known[0]
