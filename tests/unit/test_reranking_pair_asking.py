"""Rerankers that ask about one candidate at a time: a number, or the probability of a word."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.demands import Ask, Keep, Recall
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.llm_prompts import LlmReranking
from r2med_ray.reranking.llm_reranking import build_llm_reranker
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query, Repairs, Reranking
from tests.fakes import answer, kept_in

WORK = [
    Candidates(
        Query(query_id="q", text="rash"),
        [Document(doc_id=doc_id, text=text) for doc_id, text in (("a", "skin"), ("b", "heart"), ("c", "itch"))],
        [3.0, 2.0, 1.0],
    )
]


class Writer:
    """A language model that a function stands for. None means that the model has no room for a prompt."""

    name = "writer"
    answer_format = "plain"

    def __init__(self, says: Callable[[ChatPrompt], Completion | str | None]) -> None:
        self.asked: list[list[ChatPrompt]] = []
        self._says = says

    def generation_inputs(self) -> dict[str, str]:
        return {"model": "writer"}

    def answer(self, demand: Ask) -> list[Completion | None]:
        self.asked.append(list(demand.prompts))
        said = [self._says(prompt) for prompt in demand.prompts]
        return [
            Completion(text=each, reasoning="", finish_reason="stop") if isinstance(each, str) else each
            for each in said
        ]


def reranked(writer: Writer, work: Sequence[Candidates] = WORK, **settings: Any) -> Reranking:
    steps = build_llm_reranker(writer, lambda completion: (completion.text, ""), LlmReranking(**settings)).score_all(
        work
    )
    return answer(steps, {Ask: writer.answer, Recall: lambda _: [None], Keep: lambda _: None})[0]


def passage(prompt: ChatPrompt) -> str:
    return next(word for word in ("skin", "heart", "itch") if word in prompt.messages[0]["content"])


def test_numbers_of_several_answers_are_averaged() -> None:
    numbers = {"skin": "84", "heart": "42", "itch": "75"}
    writer = Writer(lambda prompt: f"score: {numbers[passage(prompt)][prompt.seed - 42]}")
    made = reranked(writer, strategy="pointwise", samples=2)

    # means of 10: (8 + 4) / 2, (4 + 2) / 2, (7 + 5) / 2; the first stage decides between a and c
    assert made == Reranking(scores={"q": [3.0, 1.0, 2.0]}, values={"q": [0.6, 0.3, 0.6]})
    assert [len(prompts) for prompts in writer.asked] == [6]
    assert writer.asked[0][1].unit == "query 'q', document 'a', sample 2"


def test_who_has_no_number_gets_the_lowest_and_is_counted() -> None:
    numbers = {"skin": "hm", "heart": "score: 70", "itch": None}
    made = reranked(Writer(lambda prompt: numbers[passage(prompt)]), strategy="pointwise", best_grade=100.0)

    # b has 0.7, and so have a and c, which can't rise above it: the first stage's order stays
    assert made == Reranking(
        scores={"q": [3.0, 2.0, 1.0]},
        values={"q": [0.7, 0.7, 0.7]},
        repairs=Repairs(unreadable={"q": {"context limit": 1, "no number": 1}}),
    )


def test_a_number_outside_the_scale_is_counted() -> None:
    made = reranked(Writer(lambda _: "score: 11"), strategy="pointwise")

    assert made.values == {"q": [1.0, 1.0, 1.0]}
    assert made.repairs == Repairs(rules={"q": {"grade out of scale": 3}})


def thinks(tokens: dict[str, tuple[tuple[str, float], ...]], **ends: str) -> Callable[[ChatPrompt], Completion]:
    """Reason about a passage, and tell the next tokens after it. `ends`: passage → why its reasoning ended."""

    def says(prompt: ChatPrompt) -> Completion:
        about = passage(prompt)
        if prompt.top_tokens:
            return Completion(text="", reasoning="", finish_reason="length", top_tokens=tokens[about])
        return Completion(text=f" on {about}\n", reasoning="", finish_reason=ends.get(about, "stop"))

    return says


def test_the_probability_of_the_word_after_the_reasoning_is_the_score() -> None:
    half = math.log(0.5)
    tokens = {
        "skin": ((" false", math.log(0.6)), (" true", math.log(0.2))),  # 0.2 / 0.8
        "heart": ((" true", math.log(0.9)), ("x", math.log(0.1))),  # 0.9 / (0.9 + at most 0.1)
        "itch": ((" true", half), (" false", half)),
    }
    writer = Writer(thinks(tokens, itch="length"))
    made = reranked(writer, strategy="probability")

    assert made.scores == {"q": [1.0, 3.0, 2.0]}
    assert made.values is not None
    assert made.values["q"] == pytest.approx([0.25, 0.9, 0.5])
    assert made.repairs == Repairs(rules={"q": {"reasoning cut and closed": 1}})
    first, second = writer.asked
    assert {prompt.is_raw for prompt in (*first, *second)} == {True}
    assert first[0].messages[0]["content"].endswith("Passage: skin\n<think>")
    assert first[0].stop == ("</think> true", "</think> false")
    assert [prompt.messages[0]["content"].rpartition("<think>")[2] for prompt in second] == [
        " on skin\n</think>",
        " on heart\n</think>",
        " on itch\n\n</think>",  # it was cut
    ]
    assert {prompt.top_tokens for prompt in second} == {20}


def test_tokens_without_the_words_and_prompts_without_room_are_unreadable() -> None:
    says = thinks({"skin": (("x", -0.1),), "itch": ((" true", -0.1), (" false", -9.0))})
    made = reranked(
        Writer(lambda prompt: None if passage(prompt) == "heart" else says(prompt)), strategy="probability"
    )

    assert made.repairs == Repairs(unreadable={"q": {"context limit": 1, "no number": 1}})
    assert made.scores == {"q": [3.0, 2.0, 1.0]}


@pytest.mark.parametrize("strategy", ["pointwise", "probability"])
def test_one_candidate_asks_nothing_and_a_kept_order_is_read_again(strategy: str, tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    says = thinks(dict.fromkeys(("skin", "heart", "itch"), ((" true", -1.0), (" false", -2.0))))
    writer = Writer(says if strategy == "probability" else lambda _: "3")
    alone = Candidates(Query(query_id="alone", text="x"), WORK[0].documents[:1], [1.0])
    build = build_llm_reranker(
        writer,
        lambda completion: (completion.text, ""),
        LlmReranking(strategy=strategy),  # type: ignore[arg-type]
    )

    first, _ = answer(build.score_all([*WORK, alone]), {Ask: writer.answer, **kept_in(store)})
    again, _ = answer(build.score_all([*WORK, alone]), kept_in(store))

    assert again == first
    assert first.scores["alone"] == [1.0]
    assert all(len(prompts) == 3 for prompts in writer.asked)


def test_a_number_that_is_not_as_the_prompt_file_says_is_read_and_counted(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("body: '{query} {doc_content}'\noutput_validation_regex: '^[0-9]$'\n")
    says = {"skin": "7", "heart": "Score: 2", "itch": "3"}
    writer = Writer(lambda prompt: says[passage(prompt)])
    build = build_llm_reranker(
        writer, lambda completion: (completion.text, ""), LlmReranking(strategy="pointwise"), prompt=str(own)
    )
    made, _ = answer(build.score_all(WORK), {Ask: writer.answer, Recall: lambda _: [None], Keep: lambda _: None})

    assert made.values == {"q": pytest.approx([0.7, 0.2, 0.3])}
    assert made.repairs == Repairs(rules={"q": {"not as the prompt file says": 1}})
