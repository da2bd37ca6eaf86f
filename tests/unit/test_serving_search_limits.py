"""Who may ask the search page: the queue, the rate, and the names and lengths that are let in."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from pydantic import ValidationError

from r2med_ray.serving.search_answers import (
    Begun,
    Done,
    Failed,
    Offer,
    RankedList,
    Refusal,
    Rewritten,
    SearchRequest,
    SystemOffer,
    TaskOffer,
    Text,
    Writing,
    event,
    gathered,
)
from r2med_ray.serving.search_limits import Gate, Rate, checked

OFFER = Offer(
    benchmark="b",
    systems=[SystemOffer(name=name, description="", replays=False) for name in ("bm25", "hybrid")],
    tasks=[TaskOffer(name="Biology", documents=3, questions=1)],
    missing=[],
)


def refused(act: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as raised:
        act()
    return raised.value


def request(**changes: object) -> SearchRequest:
    return SearchRequest.model_validate({"question": "Why?", **changes})


async def hold(gate: Gate, name: str, order: list[str], until: asyncio.Event) -> None:
    async with gate.turn(within_s=60):
        order.append(name)
        await until.wait()


def test_questions_wait_for_their_turn_in_their_order_and_one_too_many_is_told_when_to_come_back() -> None:
    async def scenario() -> tuple[list[str], list[str], Refusal]:
        gate, order, ends = Gate(at_once=1, queue=2), list[str](), [asyncio.Event() for _ in range(3)]
        held = [asyncio.create_task(hold(gate, name, order, end)) for name, end in zip("abc", ends, strict=True)]
        await asyncio.sleep(0)
        first = list(order)
        with pytest.raises(Refusal) as raised:
            await hold(gate, "d", order, asyncio.Event())
        for end, task in zip(ends, held, strict=True):
            end.set()
            await task
        return first, order, raised.value

    first, order, refusal = asyncio.run(scenario())

    assert (first, order) == (["a"], ["a", "b", "c"])
    assert (refusal.status, refusal.retry_after_s) == (503, 1)
    assert refusal.detail == "3 questions are answered or wait already; ask again"


def test_a_question_that_leaves_the_queue_or_its_turn_frees_its_place() -> None:
    async def scenario() -> list[str]:
        gate, order = Gate(at_once=1, queue=1), list[str]()
        held = [asyncio.create_task(hold(gate, name, order, asyncio.Event())) for name in "ab"]
        await asyncio.sleep(0)
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        ended = asyncio.Event()
        ended.set()
        for name in "cd":
            await hold(gate, name, order, ended)
        return order

    assert asyncio.run(scenario()) == ["a", "c", "d"]


def test_a_turn_that_does_not_come_in_time_is_given_up() -> None:
    async def scenario() -> list[str]:
        gate, order, end = Gate(at_once=1, queue=1), list[str](), asyncio.Event()
        held = asyncio.create_task(hold(gate, "a", order, end))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with gate.turn(within_s=0):
                raise AssertionError("it has a turn")
        end.set()
        await held
        await hold(gate, "b", order, end)
        return order

    assert asyncio.run(scenario()) == ["a", "b"]


def test_each_address_asks_so_often_in_a_minute_and_no_oftener() -> None:
    now = 100.0
    rate = Rate(per_minute=2, clock=lambda: now)
    rate.require("one")
    now = 130.0
    rate.require("one")
    rate.require("two")

    refusal = refused(lambda: rate.require("one"))

    # The first of the two questions was at 100 s, so it is a minute ago at 160 s, in 30 s.
    assert (refusal.status, refusal.retry_after_s) == (429, 30)
    now = 160.0
    rate.require("one")
    assert refused(lambda: rate.require("one")).retry_after_s == 30


def test_names_that_are_left_out_are_the_first_of_the_benchmark() -> None:
    asked = checked(request(), OFFER, most_characters=4)

    assert (asked.system, asked.task, asked.k) == ("bm25", "Biology", 10)


@pytest.mark.parametrize(
    ("changes", "status", "detail"),
    [
        ({"system": "hybird"}, 404, "there is no system 'hybird'. Did you mean 'hybrid'? Known: bm25, hybrid"),
        ({"task": "Chess"}, 404, "there is no task 'Chess'. Known: Biology"),
        ({"question": "Why not?"}, 413, "the question has 8 characters; at most 4 are read"),
    ],
)
def test_a_question_that_can_not_be_asked_is_refused_with_what_would_be_right(
    changes: dict[str, object], status: int, detail: str
) -> None:
    refusal = refused(lambda: checked(request(**changes), OFFER, most_characters=4))

    assert (refusal.status, refusal.detail, refusal.retry_after_s) == (status, detail, None)


@pytest.mark.parametrize("changes", [{"question": " \n"}, {"k": 0}, {"k": 101}, {"colour": "red"}])
def test_a_request_without_a_meaning_is_no_request(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        request(**changes)


BEGUN = event("begun", Begun(question="Why?", system="s", task="t", query_id=None, relevant=None))


def ranked(kind: str, name: str) -> object:
    return event(kind, RankedList(name=name, seconds=0.5, passages=[]))


def test_the_events_of_an_answer_are_the_whole_answer() -> None:
    events: Sequence[object] = [
        BEGUN,
        event("writing", Writing(step="rewriting", unit="u", again=True, reasoning="", text="Bec")),
        event(
            "rewritten", Rewritten(texts=[Text(text="Because", method="hyde", use="averaged")], notes=[], seconds=1)
        ),
        ranked("retrieved", "bm25"),
        ranked("retrieved", "minilm"),
        ranked("fused", "rrf"),
        event("done", Done(seconds=2.5)),
    ]

    answer = gathered(events)  # type: ignore[arg-type]

    assert answer.rewritten is not None
    assert [text.text for text in answer.rewritten.texts] == ["Because"]
    assert [each.name for each in answer.retrieved] == ["bm25", "minilm"]
    assert answer.fused is not None
    assert (answer.fused.name, answer.reranked, answer.seconds) == ("rrf", None, 2.5)


def test_an_answer_that_failed_is_refused_with_its_reason() -> None:
    refusal = refused(lambda: gathered([BEGUN, event("error", Failed(status=502, detail="the model is gone"))]))

    assert (refusal.status, refusal.detail) == (502, "the model is gone")
