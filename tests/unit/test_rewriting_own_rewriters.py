"""A user's class that rewrites: what it may return, and what its errors say."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.demands import Ask, Recall
from r2med_ray.errors import DataError, OwnCodeError, R2MedError, StageError
from r2med_ray.rewriting.own_rewriters import OwnRewriter
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.types import Expansion, Query, Rewriting
from tests.fakes import answer
from tests.unit.rewriting_parts import Model, said, task

QUERIES = (Query(query_id="1", text="a"), Query(query_id="2", text="b"))
CONFIG = RewriterConfig(method="mine")
EXPANDED = (QUERIES[0], replace(QUERIES[1], expansions=(Expansion(text="x", method="mine", use="joined"),)))


def rewriter(rewrite: Callable[[Sequence[Query]], Any], config: RewriterConfig = CONFIG) -> OwnRewriter:
    class Mine:
        def __init__(self, config: RewriterConfig, **about: Any) -> None:
            pass

        def rewrite(self, queries: Sequence[Query]) -> Any:
            return rewrite(queries)

    return OwnRewriter(Mine, config, task=task(""))


def returning(rewriting: object) -> Callable[[Sequence[Query]], Generator[Any, Any, Any]]:
    def rewrite(queries: Sequence[Query]) -> Generator[Any, Any, Any]:
        yield Recall(keys=())
        return rewriting

    return rewrite


def rewritten(own: OwnRewriter) -> Rewriting:
    return answer(own.rewrite(QUERIES), {Recall: lambda demand: []})[0]


def test_queries_with_expansions_are_passed_on() -> None:
    rewriting = Rewriting(queries=EXPANDED)

    assert rewritten(rewriter(returning(rewriting))) == replace(rewriting, unchanged=("1",))


def asking(read: Callable[[Completion | None], str], **found: Any) -> Callable[[Sequence[Query]], Any]:
    """Return a `rewrite` that asks a model about every query and reads its texts; "" is no expansion."""

    def rewrite(queries: Sequence[Query]) -> Generator[Any, Any, Any]:
        prompts = tuple(
            ChatPrompt(unit=f"query {query.query_id!r}", messages=({"role": "user", "content": query.text},), seed=1)
            for query in queries
        )
        _, completions = yield (Recall(keys=()), Ask(model=Model(), prompts=prompts))
        texts = [read(completion) for completion in completions]
        return Rewriting(
            queries=tuple(
                replace(query, expansions=(Expansion(text=text, method="mine", use="joined"),) if text else ())
                for query, text in zip(queries, texts, strict=True)
            ),
            **found,
        )

    return rewrite


def first_has_no_room(ask: Ask) -> list[Completion | None]:
    return [None if number == 0 else said("x") for number, _ in enumerate(ask.prompts)]


def led(own: OwnRewriter) -> Rewriting:
    return answer(own.rewrite(QUERIES), {Recall: lambda demand: [], Ask: first_has_no_room})[0]


def text_or_nothing(completion: Completion | None) -> str:
    return completion.text if completion else ""


HALF = RewriterConfig(method="mine", llm="m", max_unusable=0.5)


@pytest.mark.parametrize("found", [{}, {"flagged": {"context limit": ("1",)}}])
def test_a_prompt_without_room_is_flagged_and_allowed_like_that_of_any_method(found: dict[str, Any]) -> None:
    rewriting = led(rewriter(asking(text_or_nothing, **found), HALF))

    assert (rewriting.flagged, rewriting.unchanged) == ({"context limit": ("1",)}, ("1",))
    assert [len(query.expansions) for query in rewriting.queries] == [0, 1]


@pytest.mark.parametrize("config", [CONFIG, RewriterConfig(method="mine", on_unusable="error", max_unusable=1)])
def test_too_many_prompts_without_room_are_an_error(config: RewriterConfig) -> None:
    with pytest.raises(DataError, match=r"rewriter mine: 1 of 2 queries have no usable text \(context limit: 1\)"):
        led(rewriter(asking(text_or_nothing), config))


@pytest.mark.parametrize("found", [{"unchanged": ("1",)}, {"flagged": {"refusal": ("1",)}}])
def test_queries_that_the_class_calls_unusable_are_limited_too(found: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="1 of 2 queries have no usable text"):
        rewritten(rewriter(returning(Rewriting(queries=EXPANDED, **found))))


def test_a_class_that_puts_another_text_in_place_of_a_missing_one_has_nothing_unusable() -> None:
    rewriting = led(rewriter(asking(lambda completion: completion.text if completion else "none")))

    assert (rewriting.flagged, rewriting.unchanged) == ({}, ())


def test_a_class_that_does_not_expect_none_is_told_of_the_prompts_without_room() -> None:
    with pytest.raises(OwnCodeError, match=r"no attribute 'text' \(.*answered with None: query '1'$"):
        led(rewriter(asking(lambda completion: completion.text)))  # type: ignore[union-attr]


def test_a_class_that_is_ended_can_let_go() -> None:
    closed = []

    def holding(queries: Sequence[Query]) -> Generator[Any, Any, Any]:
        try:
            yield Recall(keys=())
        finally:
            closed.append("closed")

    steps = rewriter(holding).rewrite(QUERIES)
    next(steps)
    steps.close()

    assert closed == ["closed"]


def test_a_class_can_go_on_after_an_error_of_a_demand() -> None:
    def careful(queries: Sequence[Query]) -> Generator[Any, Any, Any]:
        try:
            yield Recall(keys=())
        except DataError:
            return Rewriting(queries=EXPANDED)

    steps = rewriter(careful).rewrite(QUERIES)
    next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.throw(DataError("damaged"))

    assert ended.value.value == Rewriting(queries=EXPANDED, unchanged=("1",))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (QUERIES, r"has to return a `Rewriting`, got \(Query\("),
        (Rewriting(queries=QUERIES[::-1]), "every query with its id and text, in their order: .*'1'.*, got .*'2'"),
        (Rewriting(queries=QUERIES[:1]), "every query with its id and text, in their order: .*'2'.*, got None"),
        (Rewriting(queries=(*QUERIES, QUERIES[0])), "in their order: None, got .*'1'"),
        (Rewriting(queries=(QUERIES[0], replace(QUERIES[1], text="c"))), "in their order: .*'b'.*, got .*'c'"),
        (
            Rewriting(queries=(QUERIES[0], replace(QUERIES[1], expansions=("x",)))),  # type: ignore[arg-type]
            "`Expansion`s for query '2', got 'x'",
        ),
        (
            Rewriting(queries=QUERIES, cuts={"document": 7}),  # type: ignore[dict-item]
            r"`query` and `document` → Cuts, got \{'document': 7\}",
        ),
    ],
)
def test_another_result_is_refused_with_the_class_and_the_task(returned: object, message: str) -> None:
    with pytest.raises(OwnCodeError, match=rf"^rewriter mine on .*: class {__name__}\..*Mine: `rewrite` .*{message}"):
        rewritten(rewriter(returning(returned)))


def test_a_method_that_is_no_generator_is_refused() -> None:
    with pytest.raises(OwnCodeError, match=r"`rewrite` has to return a generator, which yields demands .*, got 7"):
        rewritten(rewriter(lambda queries: 7))


def test_what_the_class_raises_is_told_with_its_line() -> None:
    def boom(queries: Sequence[Query]) -> Generator[Any, Any, Any]:
        yield Recall(keys=())
        raise ValueError("boom")

    with pytest.raises(OwnCodeError, match=rf"`rewrite` raised ValueError: boom \({__file__}:\d+\)"):
        rewritten(rewriter(boom))


def test_a_class_that_takes_no_arguments_is_named() -> None:
    class Bare:
        pass

    with pytest.raises(OwnCodeError, match=r"class .*Bare raised TypeError: Bare\(\) takes no arguments"):
        OwnRewriter(Bare, CONFIG, task=task(""))


def test_an_error_of_a_demand_passes_as_it_is() -> None:
    def failing(demand: Recall) -> list[object]:
        raise StageError("generate", "query '1'", "refused")

    with pytest.raises(R2MedError, match=r"^generate failed on query '1': refused"):
        answer(rewriter(returning(Rewriting(queries=QUERIES))).rewrite(QUERIES), {Recall: failing})
