"""The page's process: what it passes on, what it refuses, and when it gives up; without Serve."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from r2med_ray.live.page import render_page
from r2med_ray.serving.search_answers import Done, Event, Offer, Refusal, SearchRequest, SystemOffer, TaskOffer, event
from r2med_ray.serving.search_app import PageDeployment
from r2med_ray.serving.search_routes import PageContent
from r2med_ray.settings.resources import SearchPageResources

HTML, POLICY = render_page()
CONTENT = PageContent(
    html=HTML,
    policy=POLICY,
    offer=Offer(
        benchmark="b",
        systems=[SystemOffer(name="bm25", description="bm25", replays=False)],
        tasks=[TaskOffer(name="t", documents=1, questions=0)],
        missing=[],
    ),
    questions={"t": []},
)


class Answer:
    """An answer on its way, as a handle of Serve gives it."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events
        self.cancelled = False

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    def cancel(self) -> None:
        self.cancelled = True


class Handle:
    """Stands for the handle of processes that search; `stalls` is an answer that never comes."""

    def __init__(self, *, stalls: bool = False) -> None:
        self.stalls = stalls
        self.answers: list[Answer] = []
        self.stream = self

    def options(self, **options: Any) -> "Handle":
        return self

    def remote(self, request: SearchRequest) -> Answer:
        self.answers.append(Answer(self._events()))
        return self.answers[-1]

    async def _events(self) -> AsyncIterator[Event]:
        if self.stalls:
            await asyncio.Event().wait()
        yield event("done", Done(seconds=0.0))


def asked(handle: Handle, question: str = "Why?", **limits: Any) -> list[Event]:
    page = PageDeployment(handle, CONTENT, SearchPageResources(**limits))  # type: ignore[arg-type]

    async def collect() -> list[Event]:
        return [each async for each in page.events(SearchRequest(question=question), "here")]

    return asyncio.run(collect())


def test_the_events_of_an_answer_are_passed_on() -> None:
    assert [each["event"] for each in asked(Handle())] == ["done"]


def test_an_answer_that_takes_too_long_is_given_up_and_ended() -> None:
    handle = Handle(stalls=True)

    [event] = asked(handle, timeout_s=0.01)

    assert (event["event"], event["status"]) == ("error", 504)
    assert event["detail"] == "the answer took longer than 0.01 s, the limit `resources.search_page.timeout_s`"
    assert handle.answers[0].cancelled


def test_a_question_that_is_refused_is_not_asked() -> None:
    handle = Handle()

    with pytest.raises(Refusal, match="at most 3 are read"):
        asked(handle, question_characters=3)
    assert handle.answers == []


def test_a_page_runs_its_own_script_alone_and_asks_nobody_else() -> None:
    assert "http://" not in HTML.replace("http://www.w3.org/", "")
    assert "https://" not in HTML
    assert "innerHTML" not in HTML
    assert "connect-src 'self'" in POLICY
    assert "unsafe" not in POLICY
