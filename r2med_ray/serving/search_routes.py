"""The routes of the search page, as FastAPI: the page itself, what can be asked, and answers whole or in events."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from starlette.datastructures import MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from r2med_ray.serving.search_answers import (
    NDJSON,
    Event,
    Offer,
    Question,
    Refusal,
    SearchAnswer,
    SearchRequest,
    gathered,
)
from r2med_ray.settings.resources import SearchPageResources

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
REFUSALS: dict[int | str, dict[str, Any]] = {
    404: {"description": "there is no such system or task"},
    413: {"description": "the question or the request is too long"},
    429: {"description": "this address asked too often; `Retry-After` says when it may ask again"},
    500: {"description": "the process that searches failed"},
    502: {"description": "a step of the system failed"},
    503: {"description": "the queue is full; `Retry-After` says when to ask again"},
    504: {"description": "the answer took too long"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContent:
    """What the page shows before anything is asked."""

    html: str
    policy: str
    """The page's content security policy."""

    offer: Offer
    questions: Mapping[str, list[Question]]
    """Task → its own questions."""


class Page(Protocol):
    """What answers."""

    @property
    def content(self) -> PageContent: ...

    @property
    def limits(self) -> SearchPageResources: ...

    def events(self, request: SearchRequest, address: str) -> AsyncIterator[Event]:
        """Yield the events of an answer."""
        ...


class Guard:
    """Refuses a request whose body is too long before all of it is read, and adds headers to answers."""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, and count what is read of its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            return {"type": "http.disconnect"} if read > self._most else message

        async def answered(message: Message) -> None:
            if read > self._most:
                return  # what is said of half a body
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, counted, answered)
        if read > self._most:
            refusal = Refusal(413, f"the body of the request has more than {self._most} bytes")
            await refused(refusal)(scope, receive, send)


def build_routes(page: Page) -> FastAPI:
    """Return the application of a page."""
    # FastAPI's own pages of documents load scripts from elsewhere.
    app = FastAPI(title="r2med search", docs_url=None, redoc_url=None)
    app.add_middleware(Guard, most_bytes=page.limits.body_bytes)
    # A page of another host, whose name was made to point here, must not be able to ask.
    hosts = [page.limits.host, *LOOPBACK] if page.limits.host in LOOPBACK else ["*"]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)
    app.add_exception_handler(Refusal, _refuse)
    _add_reading(app, page.content)
    _add_asking(app, page)
    return app


def _add_reading(app: FastAPI, content: PageContent) -> None:
    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def read_page() -> HTMLResponse:
        return HTMLResponse(content.html, headers={"Content-Security-Policy": content.policy})

    @app.get("/api/systems")
    async def read_systems() -> Offer:
        """Return the systems and tasks that can be asked."""
        return content.offer

    @app.get("/api/questions")
    async def read_questions(task: str) -> list[Question]:
        """Return a task's own questions."""
        if task not in content.questions:
            raise Refusal(404, f"there is no task {task!r}")
        return content.questions[task]


def _add_asking(app: FastAPI, page: Page) -> None:

    async def search(asked: SearchRequest, request: Request) -> SearchAnswer:
        return gathered([each async for each in page.events(asked, _address(request))])

    async def stream(asked: SearchRequest, request: Request) -> StreamingResponse:
        events = page.events(asked, _address(request))
        first = await anext(events)  # a question that is not let in has a status of its own
        return StreamingResponse(_lines(first, events), media_type=NDJSON)

    @app.post("/api/search", responses=REFUSALS)
    async def search_body(asked: SearchRequest, request: Request) -> SearchAnswer:
        """Answer a question, as one JSON object."""
        return await search(asked, request)

    @app.get("/api/search", responses=REFUSALS)
    async def search_query(asked: Annotated[SearchRequest, Query()], request: Request) -> SearchAnswer:
        """Answer a question, as one JSON object."""
        return await search(asked, request)

    @app.post("/api/stream", responses=REFUSALS, response_class=StreamingResponse)
    async def stream_body(asked: SearchRequest, request: Request) -> StreamingResponse:
        """Answer a question in events, one JSON object per line, each as soon as its step is done."""
        return await stream(asked, request)

    @app.get("/api/stream", responses=REFUSALS, response_class=StreamingResponse)
    async def stream_query(asked: Annotated[SearchRequest, Query()], request: Request) -> StreamingResponse:
        """Answer a question in events, one JSON object per line, each as soon as its step is done."""
        return await stream(asked, request)


def refused(refusal: Refusal) -> JSONResponse:
    """Return the response of a question that is not answered."""
    headers = {} if refusal.retry_after_s is None else {"Retry-After": str(refusal.retry_after_s)}
    return JSONResponse({"detail": refusal.detail}, refusal.status, headers)


async def _refuse(request: Request, refusal: Exception) -> JSONResponse:
    assert isinstance(refusal, Refusal)
    return refused(refusal)


async def _lines(first: Event, rest: AsyncIterator[Event]) -> AsyncIterator[str]:
    yield json.dumps(first, ensure_ascii=False) + "\n"
    async for each in rest:
        yield json.dumps(each, ensure_ascii=False) + "\n"


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
