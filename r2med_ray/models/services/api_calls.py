"""Calls to OpenAI-compatible services: bounded in flight, with deadlines, retries, and no key in any message.

A request is sent again after 408, 409, 425, 429 and 5xx, after a lost connection or a time-out, and after an answer
that isn't what the API promises. Every other status is final, and one of `REFUSING` ends all other calls as well.
Waits grow exponentially with full jitter (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/)
on top of what `Retry-After` asks for.
"""

import asyncio
import ipaddress
import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from r2med_ray.errors import DataError, NotAtHand, R2MedError, StageError, StoppedError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

logger = logging.getLogger(__name__)

T = TypeVar("T")

SENT_AGAIN = frozenset({408, 409, 425, 429})
"""Statuses below 500 that another attempt may cure."""

REFUSING = frozenset({401, 403, 404})
"""Statuses that every other request would get too: the key, the model or the address is wrong."""

NO_KEY = "no-key-needed"
"""Sent where a service wants no key; without one the client would send OPENAI_API_KEY to whoever listens."""

MESSAGE_CHARACTERS = 500
"""How much of a service's own message an error quotes."""

STOP_HEEDED_EVERY_S = 0.1
"""How long calls go on at most after they were told to stop."""


class CallPolicy(BaseModel):
    """How a service is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_in_flight: int = Field(default=8, ge=1)
    """Calls at once. A call that waits for its next attempt keeps its place, which slows down the others."""

    timeout_s: float = Field(default=120.0, gt=0)
    """Of one request, from its first byte to the last of its answer."""

    attempts: int = Field(default=8, ge=1)
    deadline_s: float = Field(default=900.0, gt=0)
    """Of one call: all its requests and the waits between them."""

    base_wait_s: float = Field(default=1.0, ge=0)
    """Most that is waited before the second attempt; it doubles with every further one."""

    max_wait_s: float = Field(default=60.0, ge=0)
    """Most that is waited, unless `Retry-After` asks for more."""

    use_proxies: bool = True
    """Whether requests take the way that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say. Those to a loopback
    address never do, nor, unless it is said here, those to a model that the job serves."""


class GarbageError(DataError):
    """An answer isn't what the API promises. Raised by a request, it has the request sent again."""


class RefusedError(StageError):
    """A service refuses whatever it is asked, with a status of `REFUSING`."""


def find_key(variable: str) -> str:
    """Return the key that an environment variable holds; "" where it is not set, or holds blanks alone."""
    return os.environ.get(variable, "").strip()


def api_key(variable: str | None) -> str:
    """Return the key that an environment variable holds, or `NO_KEY` where no variable is named.

    Raises:
        NotAtHand: the variable is not set or empty.
    """
    if variable is None:
        return NO_KEY
    key = find_key(variable)
    if not key:
        raise NotAtHand(variable, f"the environment variable {variable} must hold the service's key; it holds none")
    return key


class ApiCalls:
    """The open connections to one service: `async with ApiCalls(...) as calls`, and then `calls.call(...)`.

    Args:
        stage: names the work in errors, e.g. "rewrite with gpt-4o".
        base_url: e.g. `https://api.openai.com/v1`.
        key_variable: the environment variable that holds the key; read when the connections are opened.
        policy: how the service is asked.
        model: what the service calls the model that it is asked for; for errors.
        stop: ends `each` from another thread, when it is set.

    Attributes:
        requests: HTTP requests that were sent.
        retries: how many of them were repetitions, by reason: a status, "connection", "time-out", "garbage".
    """

    def __init__(
        self,
        stage: str,
        base_url: str,
        key_variable: str | None,
        policy: CallPolicy,
        *,
        model: str,
        stop: threading.Event | None = None,
    ) -> None:
        self._stage = stage
        self._base_url = base_url
        self._key_variable = key_variable
        self._policy = policy
        self._model = model
        self._stop = stop or threading.Event()
        self.requests = 0
        self.retries: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        self._key = api_key(self._key_variable)
        self._slots = asyncio.Semaphore(self._policy.max_in_flight)
        by_environment = self._policy.use_proxies and not _is_loopback(self._base_url)
        self._client = AsyncOpenAI(
            api_key=self._key,
            base_url=self._base_url,
            max_retries=0,
            timeout=self._policy.timeout_s,
            http_client=None if by_environment else DefaultAsyncHttpxClient(trust_env=False),
        )
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._client.close()

    async def call(self, request: "Callable[[AsyncOpenAI], Awaitable[T]]", *, unit: str) -> T:
        """Send a request until it is answered.

        Args:
            request: asks the client and returns what it makes of the answer; raises `GarbageError`, or pydantic's
                error, where the answer makes no sense.
            unit: what is asked about, for errors, e.g. "query '7'".

        Raises:
            RefusedError: a status that every request would get; names model and key.
            StageError: another final status, or no attempts or no time left; says what the service said last.
        """
        from openai import APIError

        policy = self._policy
        async with self._slots:
            deadline = time.monotonic() + policy.deadline_s
            retrying = AsyncRetrying(
                retry=retry_if_exception(lambda error: _reason(error) is not None),
                wait=_retry_after + wait_random_exponential(multiplier=policy.base_wait_s, max=policy.max_wait_s),
                stop=stop_after_attempt(policy.attempts) | stop_before_delay(policy.deadline_s),
                before_sleep=lambda state: self._count(state, unit),
                reraise=True,
            )
            try:
                return await retrying(self._attempt, request, deadline)
            except (APIError, GarbageError, TimeoutError) as error:
                if _refuses(error):
                    raise RefusedError(self._stage, unit, self._describe(error)) from None
                tried = retrying.statistics["attempt_number"]
                unit = unit if tried == 1 else f"{unit}, after {tried} attempts"
                raise StageError(self._stage, unit, self._describe(error)) from None  # its request holds the key

    async def each(self, items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
        """Work on all items, as many at once as the policy allows.

        After a failure no further item is begun; those in flight, which are paid for, come to their end. Where the
        service refuses everything there is nothing to wait for, and they are cancelled; so they are by `stop`.

        Raises:
            RefusedError: the service refuses everything.
            StoppedError: `stop` was set.
            R2MedError: otherwise the first failure.
        """
        waiting = iter(items)
        failures: list[R2MedError] = []
        workers: list[asyncio.Task[None]] = []

        def end_all(error: R2MedError) -> None:
            failures.insert(0, error)
            for worker in workers:
                worker.cancel()

        async def work_on_next() -> None:
            while not failures:
                try:
                    await work(next(waiting))
                except StopIteration:
                    return
                except RefusedError as error:
                    end_all(error)
                except R2MedError as error:
                    failures.append(error)

        async with asyncio.TaskGroup() as group:
            workers += [group.create_task(work_on_next()) for _ in range(self._policy.max_in_flight)]
            at_work = set(workers)
            while at_work and not self._stop.is_set():
                _, at_work = await asyncio.wait(at_work, timeout=STOP_HEEDED_EVERY_S)
            if at_work:
                end_all(StoppedError(f"{self._stage}: stopped, because what ran beside it failed"))
        if failures:
            raise failures[0]

    async def _attempt(self, request: "Callable[[AsyncOpenAI], Awaitable[T]]", deadline: float) -> T:
        self.requests += 1
        try:
            async with asyncio.timeout(min(self._policy.timeout_s, deadline - time.monotonic())):
                return await request(self._client)
        except (json.JSONDecodeError, UnicodeDecodeError, ValidationError) as error:
            raise GarbageError(f"the answer can't be read: {error}") from None

    def _count(self, state: RetryCallState, unit: str) -> None:
        assert state.outcome is not None
        error = state.outcome.exception()
        assert error is not None
        self.retries[str(_reason(error))] += 1
        logger.warning(
            "%s: %s will be sent again in %.1f s: %s", self._stage, unit, state.upcoming_sleep, self._describe(error)
        )

    def _describe(self, error: BaseException) -> str:
        from openai import APIStatusError

        service, text = self._base_url, str(error) or "no answer in time"
        if isinstance(error, APIStatusError):
            said = error.body if isinstance(error.body, dict) else {}
            text = f"HTTP {error.status_code}: {said.get('message') or said.get('detail') or text}"
        if _refuses(error):
            key = f"the key from the environment variable {self._key_variable}" if self._key_variable else "no key"
            service = f"{service}, asked for the model {self._model!r} with {key}"
        in_one_line = " ".join(text.replace(self._key, "***").split())
        return f"{service}: {in_one_line[:MESSAGE_CHARACTERS]}"


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def _refuses(error: BaseException) -> bool:
    from openai import APIStatusError

    return isinstance(error, APIStatusError) and error.status_code in REFUSING


def _reason(error: BaseException) -> str | None:
    """Return why a request is sent again; None where it isn't."""
    import openai

    match error:
        case TimeoutError() | openai.APITimeoutError():
            return "time-out"
        case openai.APIConnectionError():
            return "connection"
        case openai.APIStatusError(status_code=status, code=code):
            curable = (status in SENT_AGAIN or status >= 500) and code != "insufficient_quota"
            return str(status) if curable else None
        case GarbageError() | openai.APIError():
            return "garbage"
    return None


def _retry_after(state: RetryCallState) -> float:
    """Return the seconds that the service's `Retry-After`, a number or a date, asks for; 0 where there is none."""
    from openai import APIStatusError

    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, APIStatusError):
        return 0.0
    asked = error.response.headers.get("retry-after", "0")
    try:
        seconds = float(asked) if asked.replace(".", "", 1).isdigit() else _seconds_until(asked)
    except ValueError:
        logger.warning("the service's Retry-After is neither seconds nor a date: %r", asked)
        seconds = 0.0
    return max(0.0, seconds)


def _seconds_until(date: str) -> float:
    at = parsedate_to_datetime(date)
    return (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
