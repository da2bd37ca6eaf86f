"""Calls to OpenAI-compatible services: limited in number and time, and sent again if `retries` says so.

No error message or log line ever holds a service's key.
"""

import asyncio
import ipaddress
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError
from tenacity import RetryCallState

from r2med_ray.errors import R2MedError, StageError, StoppedError
from r2med_ray.models.catalog.call_policy import CallPolicy
from r2med_ray.models.catalog.service_keys import api_key
from r2med_ray.models.services.retries import GarbageError, RefusedError, reason_to_retry, refuses, retrying
from r2med_ray.models.services.service_words import words_of
from r2med_ray.secrets import HIDDEN, scrubbed

if TYPE_CHECKING:
    from openai import AsyncOpenAI

logger = logging.getLogger(__name__)

T = TypeVar("T")

MESSAGE_CHARACTERS = 500
"""Characters of a service's own message that an error quotes."""

STOP_HEEDED_EVERY_S = 0.1
"""The most seconds that calls go on after they were told to stop."""


class ApiCalls:
    """The open connections to one service: `async with ApiCalls(...) as calls`, and then `calls.call(...)`.

    Args:
        stage: names the work in errors, e.g. "rewrite with gpt-4o".
        base_url: address of the service, e.g. `https://api.openai.com/v1`.
        key_variable: the environment variable that holds the key; read when the connections are opened.
        policy: the limits on calls.
        model: the model's name in requests; for errors.
        stop: an event that ends `each` when another thread sets it.

    Attributes:
        requests: number of HTTP requests that were sent.
        retries: reason (a status, "connection", "time-out", "garbage") → number of requests that were repetitions.
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
            request: asks the client, and returns what it reads in the answer. The function raises `GarbageError` or
                pydantic's error if the answer makes no sense.
            unit: what the request is about, for errors, e.g. "query '7'".

        Raises:
            RefusedError: the service answered with a status of `retries.REFUSING`; names the model, and the variable
                of the key.
            StageError: the service answered with another final status, or no attempt or no time is left; gives the
                service's last message.
        """
        from openai import APIError

        policy = self._policy
        async with self._slots:
            deadline = time.monotonic() + policy.deadline_s
            attempts = retrying(policy, before_sleep=lambda state: self._count(state, unit))
            try:
                return await attempts(self._attempt, request, deadline)
            except (APIError, GarbageError, TimeoutError) as error:
                if refuses(error):
                    raise RefusedError(self._stage, unit, self._describe(error)) from None
                tried = attempts.statistics["attempt_number"]
                unit = unit if tried == 1 else f"{unit}, after {tried} attempts"
                raise StageError(self._stage, unit, self._describe(error)) from None  # `error` holds the key

    async def each(self, items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
        """Work on all items. The policy says how many at once.

        After a failure no further item is begun. Calls in flight are paid for, so they go on to their end. If the
        service refuses everything or `stop` is set, calls in flight are cancelled.

        Raises:
            RefusedError: the service refuses everything.
            StoppedError: `stop` was set.
            R2MedError: the first failure of another kind.
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
        except json.JSONDecodeError as error:
            raise GarbageError(
                f"the answer is no JSON ({error.msg}); the service sent: {words_of(error.doc)}"
            ) from None
        except UnicodeDecodeError as error:
            raise GarbageError(
                f"the answer is no UTF-8 ({error.reason}); the service sent: {words_of(error.object)}"
            ) from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(["the answer", *map(str, first["loc"])])
            raise GarbageError(f"{where}: {first['msg']}; the service sent: {words_of(first['input'])}") from None

    def _count(self, state: RetryCallState, unit: str) -> None:
        assert state.outcome is not None
        error = state.outcome.exception()
        assert error is not None
        self.retries[str(reason_to_retry(error))] += 1
        logger.warning(
            "%s: %s will be sent again in %.1f s: %s", self._stage, unit, state.upcoming_sleep, self._describe(error)
        )

    def _describe(self, error: BaseException) -> str:
        from openai import APIError, APIStatusError

        service, text = self._base_url, str(error) or "no answer in time"
        if isinstance(error, APIError) and error.body:
            text = words_of(error.body)
        if isinstance(error, APIStatusError):
            text = f"HTTP {error.status_code}: {text}"
        if refuses(error):
            key = f"the key from the environment variable {self._key_variable}" if self._key_variable else "no key"
            service = f"{service}, asked for the model {self._model!r} with {key}"
        in_one_line = " ".join(scrubbed(text.replace(self._key, HIDDEN)).split())
        return f"{service}: {in_one_line[:MESSAGE_CHARACTERS]}"


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"
