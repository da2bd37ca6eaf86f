"""A user's class that rewrites: what it may return, and what its errors say."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from r2med_ray.demands import Recall
from r2med_ray.errors import OwnCodeError, R2MedError, StageError
from r2med_ray.rewriting.own_rewriters import OwnRewriter
from r2med_ray.settings.config import RewriterConfig
from r2med_ray.types import Expansion, Query, Rewriting
from tests.fakes import answer
from tests.unit.rewriting_parts import task

QUERIES = (Query(query_id="1", text="a"), Query(query_id="2", text="b"))
CONFIG = RewriterConfig(method="mine")


def rewriter(rewrite: Callable[[Sequence[Query]], Any]) -> OwnRewriter:
    class Mine:
        def __init__(self, config: RewriterConfig, **about: Any) -> None:
            pass

        def rewrite(self, queries: Sequence[Query]) -> Any:
            return rewrite(queries)

    return OwnRewriter(Mine, CONFIG, task=task(""))


def returning(rewriting: object) -> Callable[[Sequence[Query]], Generator[Any, Any, Any]]:
    def rewrite(queries: Sequence[Query]) -> Generator[Any, Any, Any]:
        yield Recall(keys=())
        return rewriting

    return rewrite


def rewritten(own: OwnRewriter) -> Rewriting:
    return answer(own.rewrite(QUERIES), {Recall: lambda demand: []})[0]


def test_queries_with_expansions_are_passed_on() -> None:
    expanded = replace(QUERIES[1], expansions=(Expansion(text="x", method="mine", use="joined"),))
    rewriting = Rewriting(queries=(QUERIES[0], expanded))

    assert rewritten(rewriter(returning(rewriting))) == rewriting


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
