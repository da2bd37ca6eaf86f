"""Answers that can't be used are left out and counted, and too many of them are an error."""

from collections.abc import Sequence
from typing import Any

import pytest

from r2med_ray.errors import DataError
from r2med_ray.rewriting.answers import Answer, Flag
from r2med_ray.rewriting.expanding import expand
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.types import Query, Rewriting

DEFAULT = Rules()


def answer(flag: Flag, text: str = "") -> Answer:
    return Answer(text=text, reasoning_text="", flag=flag)


def expanded(answers: Sequence[Sequence[Answer]], task: str = "", rules: Rules = DEFAULT, **values: Any) -> Rewriting:
    writer = {} if "generations" in values else {"llm": "m"}
    config = RewriterConfig.model_validate({"method": "hyde"} | writer | values)
    queries = [Query(query_id=f"q{number}", text="pain") for number in range(1, len(answers) + 1)]
    of_query = {query.query_id: of for query, of in zip(queries, answers, strict=True)}
    return expand(queries, of_query, config, method="hyde", use="averaged", reasoning=False, rules=rules, task=task)


def test_a_query_without_a_usable_text_stands_apart_from_what_was_wrong_with_texts() -> None:
    rewriting = expanded([[answer("empty")], [answer("cut at limit", "b")], [answer("none", "c")]], max_unusable=0.5)

    assert rewriting.flagged == {"empty": ("q1",), "cut at limit": ("q2",)}
    assert rewriting.unchanged == ("q1",)
    assert [len(query.expansions) for query in rewriting.queries] == [0, 1, 1]


def test_too_many_are_named_with_task_reasons_and_what_gives_other_texts() -> None:
    # 12 + 3 of 20 queries have no text. The text of q16 was cut too, but is used.
    cut, empty = [[answer("cut at limit")]] * 12, [[answer("empty")]] * 3
    usable = [[answer("cut at limit", "b")], *[[answer("none", "b")]] * 4]

    with pytest.raises(DataError) as raised:
        expanded([*cut, *empty, *usable], task="Biology")

    assert str(raised.value) == (
        "Biology: rewriter hyde/m: 15 of 20 queries have no usable text (cut at limit: 12, empty: 3); at most "
        "5% are allowed: q1, q2, q3, q4, q5, q6, q7, q8, q9, q10 and 5 more. Texts are stored, so the same settings "
        "give the same texts again. Set another `seed`, a larger `max_tokens` of the model, or a larger "
        "`max_unusable`"
    )


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        ({"generations": "g"}, "Set other `generations`, or a larger `max_unusable`"),
        ({"on_unusable": "error"}, "max_tokens` of the model, or `on_unusable: original`"),
    ],
)
def test_the_advice_is_of_use_to_the_settings(values: dict[str, Any], advice: str) -> None:
    with pytest.raises(DataError, match=f"q1, q2, q3\\. .*{advice}"):
        expanded([[answer("refusal")]] * 3, **values)


@pytest.mark.parametrize(("rules", "texts"), [(DEFAULT, [["b"], []]), (Rules(unusable_texts=True), [["b", ""], []])])
def test_the_published_protocol_uses_every_text_but_there_is_none_without_room(
    rules: Rules, texts: list[list[str]]
) -> None:
    answers = [[answer("none", "b"), answer("empty")], [answer("context limit"), answer("context limit")]]

    rewriting = expanded(answers, rules=rules, max_unusable=0.5)

    assert [[part.text for part in query.expansions] for query in rewriting.queries] == texts
    assert rewriting.flagged == {"empty": ("q1",), "context limit": ("q2",)}
    assert rewriting.unchanged == ("q2",)


def test_where_prompts_had_no_room_a_larger_model_is_advised() -> None:
    with pytest.raises(DataError, match="Set a language model with more room, another `seed`, "):
        expanded([[answer("context limit")]])
