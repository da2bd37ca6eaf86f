"""The search page behind Ray Serve: a light process takes requests, and processes that hold the indexes answer them.

What searches is a plain class, given from above and tested without Serve. Here are its turn, its time and its end: a
visitor who leaves cancels the question.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from fastapi import FastAPI
from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from r2med_ray.secrets import scrubbed
from r2med_ray.serving.search_answers import Event, Failed, SearchRequest, event
from r2med_ray.serving.search_limits import Gate, Rate, checked
from r2med_ray.serving.search_routes import PageContent, build_routes
from r2med_ray.serving.serve_session import end_application
from r2med_ray.serving.start_failures import run_application
from r2med_ray.settings.resources import NO_PROGRESS_TIMEOUT_S, SearchPageResources

QUIET = {"log_level": "WARNING", "enable_access_log": False}

MOST_REQUESTS = 10_000
"""Requests that the page's process takes in. Its gate counts questions and answers one too many; Serve would wait."""


class Answering(Protocol):
    """Searches, and tells each step as soon as it is done."""

    def search(self, request: SearchRequest, tell: Callable[[Event], None], stop: threading.Event) -> None:
        """Answer a question.

        Args:
            request: the question, with the names of a system and a task.
            tell: takes the events; may be called from any thread.
            stop: is set when nobody waits for the answer any more; the work then ends soon.
        """
        ...


class SearcherDeployment:
    """One process that searches.

    Args:
        build: makes what searches. It is called once.
        at_once: questions that are answered at the same time.
    """

    def __init__(self, build: Callable[[], Answering], at_once: int) -> None:
        self._answering = build()
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="question")

    async def stream(self, request: SearchRequest) -> AsyncIterator[Event]:
        """Yield the events of an answer."""
        loop, stop = asyncio.get_running_loop(), threading.Event()
        told: asyncio.Queue[Event | None] = asyncio.Queue()

        def tell(event: Event | None) -> None:
            loop.call_soon_threadsafe(told.put_nowait, event)

        def work() -> None:
            try:
                self._answering.search(request, tell, stop)
            finally:
                tell(None)

        working = loop.run_in_executor(self._threads, work)
        try:
            while (each := await told.get()) is not None:
                yield each
            await working
        finally:
            stop.set()


class PageDeployment:
    """Takes requests, lets in as many as may be, and passes on the events of their answers.

    Args:
        searcher: the handle of `SearcherDeployment`.
        content: the page.
        limits: what visitors may ask.
    """

    def __init__(
        self, searcher: DeploymentHandle[SearcherDeployment], content: PageContent, limits: SearchPageResources
    ) -> None:
        self.content = content
        self.limits = limits
        self._searcher: Any = searcher.options(stream=True)
        self._gate = Gate(at_once=limits.at_once * limits.replicas, queue=limits.queue)
        self._rate = Rate(per_minute=limits.per_minute, clock=time.monotonic)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Return the routes; Serve asks for them once."""
        return build_routes(self)

    async def events(self, request: SearchRequest, address: str) -> AsyncIterator[Event]:
        """Yield the events of an answer.

        Args:
            request: the question.
            address: who asks.

        Raises:
            Refusal: the question is not let in.
        """
        self._rate.require(address)
        request = checked(request, self.content.offer, most_characters=self.limits.question_characters)
        deadline = time.monotonic() + self.limits.timeout_s
        try:
            async with self._gate.turn(within_s=self.limits.timeout_s):
                answer = self._searcher.stream.remote(request)
                try:
                    while True:
                        yield await asyncio.wait_for(anext(answer), deadline - time.monotonic())
                except StopAsyncIteration:
                    return
                finally:
                    answer.cancel()
        except TimeoutError:
            limit = f"the answer took longer than {self.limits.timeout_s:g} s, the limit"
            yield event("error", Failed(status=504, detail=f"{limit} `resources.search_page.timeout_s`"))
        except (RayError, RayServeException) as error:
            yield event("error", Failed(status=500, detail=scrubbed(str(error).strip().splitlines()[-1])))


@contextlib.contextmanager
def serve_search_page(
    name: str,
    build: Callable[[], Answering],
    content: PageContent,
    limits: SearchPageResources,
    *,
    gpus: float,
    start_within_s: float = NO_PROGRESS_TIMEOUT_S,
) -> Iterator[None]:
    """Run the application of a search page during a `with` block. Serve with its HTTP proxy must run already.

    Args:
        name: name of the application.
        build: makes what searches, once in every process.
        content: the page.
        limits: processes, and what visitors may ask.
        gpus: GPUs that each process reserves.
        start_within_s: seconds that the start may take.

    Raises:
        StageError: a process failed to start, and the message is its own exception; or the start takes too long.
    """
    searcher = serve.deployment(
        name="searcher",
        num_replicas=limits.replicas,
        ray_actor_options={"num_cpus": limits.cpus, "num_gpus": gpus},
        max_ongoing_requests=2 * limits.at_once,  # a question that was left goes on for a moment
        max_constructor_retry_count=2,
        logging_config=QUIET,
    )(SearcherDeployment)
    page = serve.deployment(
        name="page",
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=MOST_REQUESTS,
        max_constructor_retry_count=2,
        logging_config=QUIET,
    )(serve.ingress()(PageDeployment))
    application = page.bind(searcher.bind(build, limits.at_once), content, limits)
    try:
        run_application(application, what="the search page", name=name, within_s=start_within_s, route_prefix="/")
        yield
    finally:
        end_application(name)
