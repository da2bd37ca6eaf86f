"""Texts that are written one after the other: in rounds of feedback, or a target and its mimic."""

from collections.abc import Sequence
from typing import Any

import pytest

from r2med_ray.cuts import Cuts
from r2med_ray.demands import Ask, Find, QueryRewriter
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.rewriting.build import build_rewriter
from r2med_ray.rewriting.live import NONE_YET
from r2med_ray.rewriting.methods import METHODS
from r2med_ray.rewriting.prompts import PromptTask
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.types import Expansion, Query, Rewriting
from tests.fakes import answer
from tests.unit.rewriting_parts import TOOL, Model, finding, said, task, told, with_room, writing

QUERIES = (Query(query_id="7", text="acute pain"), Query(query_id="8", text="chronic pain"))
FEEDBACK = {"retriever": "bm25", "depth": 2, "words": 64}


def built(method: str, **values: Any) -> QueryRewriter:
    config = RewriterConfig.model_validate({"method": method, "llm": "m", "max_unusable": 1} | values)
    return build_rewriter(
        config,
        task=task(),
        method=METHODS[method],
        model=Model(answer_format=values.pop("answer_format", "think")),
        in_place=False,
        tool=TOOL if config.candidates else None,
        tool_inputs={},
        rules=Rules(),
        prompt=PromptTask(names=("Biology",)),
        can_fetch=False,
        system="s",
    )


def shown(ask: Ask, query: Query) -> str:
    """Return the prompt about one query."""
    [prompt] = [prompt for prompt in ask.prompts if repr(query.query_id) in prompt.unit]
    return told(prompt)


def numbers(query: Query) -> Sequence[str]:
    """A search that finds four passages, of which each text of the query brings one more to the top."""
    return [f"passage {number}" for number in range(4)]


def texts(rewriting: Rewriting) -> list[list[str]]:
    return [[expansion.text for expansion in query.expansions] for query in rewriting.queries]


def thinking(text: str) -> str:
    return f"<think>{NONE_YET} is what it says</think>{text}"


def test_in_each_round_the_search_has_the_texts_so_far_and_the_model_sees_unseen_passages_alone() -> None:
    count = iter(range(100))
    rewriting, demands = answer(
        built("diver-qexpand", candidates=FEEDBACK).rewrite(QUERIES),
        finding(numbers) | writing(lambda prompt: thinking(f"text {next(count)}")),
    )

    first, second = [demand for demand in demands if isinstance(demand, Find)]
    assert [query.expansions for query in first.queries] == [(), ()]
    assert [[part.text for part in query.expansions] for query in second.queries] == [["text 0"], ["text 1"]]
    assert (first.k, second.k) == (2, 4)  # two passages were shown, so two more are searched for
    early, late = [shown(demand, QUERIES[0]) for demand in demands if isinstance(demand, Ask)]
    assert "[1]. passage 0\n[2]. passage 1\n" in early
    assert NONE_YET in early
    assert "[1]. passage 2\n[2]. passage 3\n" in late
    assert "text 0" in late
    assert texts(rewriting) == [["text 0", "text 2"], ["text 1", "text 3"]]
    assert {part for query in rewriting.queries for part in query.expansions} == {
        Expansion(text=f"text {number}", method="diver-qexpand", use="joined", reasoning=True) for number in range(4)
    }


def test_thinkqe_has_three_rounds_and_all_samples_of_a_round_are_used() -> None:
    rewriting, demands = answer(
        built("thinkqe", candidates=FEEDBACK | {"depth": 1}, samples=2).rewrite(QUERIES[:1]),
        finding(numbers) | writing(lambda prompt: thinking(f"seed {prompt.seed}")),
    )

    asks = [demand for demand in demands if isinstance(demand, Ask)]
    assert [[prompt.seed for prompt in ask.prompts] for ask in asks] == [[42, 43]] * 3
    assert texts(rewriting) == [["seed 42", "seed 43"] * 3]
    assert {part.per_repeat for part in rewriting.queries[0].expansions} == {3}
    # depths 1, 2 and 3: one more passage was shown each time
    assert [demand.k for demand in demands if isinstance(demand, Find)] == [1, 2, 3]


def test_a_query_for_which_nothing_new_is_found_keeps_its_texts_and_is_flagged() -> None:
    rewriting, demands = answer(
        built("thinkqe", candidates=FEEDBACK).rewrite(QUERIES),
        finding(lambda query: numbers(query)[: 2 if query.query_id == "7" else 4])
        | writing(lambda prompt: thinking("a text")),
    )

    assert [len(ask.prompts) for ask in demands if isinstance(ask, Ask)] == [2, 1, 0]
    assert texts(rewriting) == [["a text"], ["a text", "a text"]]
    assert rewriting.flagged == {"no new passages": ("7", "8")}
    assert rewriting.unchanged == ()


def test_a_first_search_that_finds_nothing_asks_as_lamer_does() -> None:
    rewriting, demands = answer(
        built("diver-qexpand", candidates=FEEDBACK).rewrite(QUERIES[:1]),
        finding(lambda query: []) | writing(lambda prompt: thinking("a text")),
    )

    assert (
        len([demand for demand in demands if isinstance(demand, Ask)]) == 2
    )  # nothing was seen, so nothing is stale
    assert texts(rewriting) == [["a text", "a text"]]


def test_a_round_without_a_usable_text_leaves_the_query_as_the_round_before_left_it() -> None:
    def write(prompt: Any) -> Any:
        return said("<think>no end", finish_reason="length") if "text" in told(prompt) else thinking("text")

    rewriting, _ = answer(
        built("diver-qexpand", candidates=FEEDBACK, max_unusable=0).rewrite(QUERIES),
        finding(numbers) | writing(write),
    )

    assert texts(rewriting) == [["text"], ["text"]]
    assert rewriting.unchanged == ()
    assert rewriting.flagged == {"cut at limit": ("7", "8")}


def test_queries_without_a_text_of_any_round_are_limited_and_named() -> None:
    with pytest.raises(DataError, match=r"rewriter diver-qexpand/m: 2 of 2 queries .*7, 8"):
        answer(
            built("diver-qexpand", candidates=FEEDBACK, max_unusable=0.5).rewrite(QUERIES),
            finding(numbers) | writing(lambda prompt: "<think>no end"),
        )


def test_the_reasoning_of_all_rounds_is_told_in_their_order() -> None:
    count = iter(range(100))
    rewriting, _ = answer(
        built("diver-qexpand", candidates=FEEDBACK).rewrite(QUERIES),
        finding(numbers) | writing(lambda prompt: f"<think>thought {next(count)}</think>a text"),
    )

    assert rewriting.reasoning == {"7": ("thought 0", "thought 2"), "8": ("thought 1", "thought 3")}


def test_the_words_of_all_rounds_are_counted() -> None:
    rewriting, _ = answer(
        built("diver-qexpand", candidates=FEEDBACK | {"words": 1}).rewrite(QUERIES[:1]),
        finding(numbers) | writing(lambda prompt: thinking("a text")),
    )

    assert rewriting.cuts is not None
    # two rounds of two passages of two words, of which one word each is shown; a query of two words in each round
    assert rewriting.cuts["document"] == Cuts(texts=4, cut=4, tokens=8, lost=4, lengths=(1,), unit="words")
    assert rewriting.cuts["query"] == Cuts(texts=2, cut=0, tokens=4, unit="words")


def test_one_round_can_be_had_and_lamer_can_have_two() -> None:
    one, _ = answer(
        built("thinkqe", candidates=FEEDBACK | {"rounds": 1}).rewrite(QUERIES[:1]),
        finding(numbers) | writing(lambda prompt: thinking("a text")),
    )
    two, _ = answer(
        built("lamer", candidates=FEEDBACK | {"rounds": 2}).rewrite(QUERIES[:1]),
        finding(numbers) | writing(lambda prompt: thinking("a text")),
    )

    assert (texts(one), texts(two)) == ([["a text"]], [["a text", "a text"]])


def test_a_target_is_added_and_its_mimic_taken_away() -> None:
    rewriting, [target, mimic] = answer(
        built("contrast").rewrite(QUERIES[:1]),
        writing(lambda prompt: thinking("gout" if "Likely answer" in told(prompt) else "pseudogout")),
    )

    assert isinstance(target, Ask)
    assert isinstance(mimic, Ask)
    assert "pseudogout" not in told(target.prompts[0])
    assert "Likely answer:\npseudogout\n" in told(mimic.prompts[0])
    assert [(part.text, part.use) for part in rewriting.queries[0].expansions] == [
        ("pseudogout", "averaged"),
        ("gout", "subtracted"),
    ]
    assert rewriting.cuts is None


def test_a_mimic_is_asked_for_even_without_a_target_and_a_target_is_used_without_a_mimic() -> None:
    bare, _ = answer(
        built("contrast").rewrite(QUERIES[:1]),
        writing(lambda prompt: thinking("gout" if "Likely answer" in told(prompt) else "")),
    )
    alone, _ = answer(
        built("contrast").rewrite(QUERIES[:1]),
        writing(lambda prompt: thinking("" if "Likely answer" in told(prompt) else "pseudogout")),
    )

    assert [[(part.text, part.use) for part in each.queries[0].expansions] for each in (bare, alone)] == [
        [("gout", "subtracted")],
        [("pseudogout", "averaged")],
    ]
    assert (bare.flagged, bare.unchanged) == ({"empty": ("7",)}, ())


def test_a_prompt_that_is_too_long_is_halved_in_every_round() -> None:
    long = " ".join(["word"] * 64)
    rewriting, demands = answer(
        built("diver-qexpand", candidates=FEEDBACK | {"depth": 1, "too_long": "halve"}).rewrite(QUERIES[:1]),
        finding(lambda query: [long, long]) | writing(with_room(120)),
    )

    assert rewriting.flagged["candidates shortened"] == ("7",)
    assert {len(prompt.shorter) for ask in demands if isinstance(ask, Ask) for prompt in ask.prompts} == {2}


def test_the_published_protocol_knows_no_second_text() -> None:
    config = RewriterConfig.model_validate({"method": "lamer", "llm": "m", "candidates": FEEDBACK | {"rounds": 2}})

    with pytest.raises(ConfigError, match="rewriter lamer: samples 2; the published protocol knows one"):
        build_rewriter(
            config,
            task=task(),
            method=METHODS["lamer"],
            model=Model(),
            in_place=False,
            tool=TOOL,
            tool_inputs={},
            rules=Rules.of("r2med"),
            prompt=PromptTask(names=("Biology",)),
            can_fetch=False,
            system="s",
        )
