"""A plan counts the prompts that rerankers read, whatever their answers will be."""

import pytest

from r2med_ray.models.catalog.listwise_encoders import ListwiseEncoderRow
from r2med_ray.models.catalog.llm_rerankers import LlmRerankerRow
from r2med_ray.reranking.setwise import SORTS
from r2med_ray.workbench.prompts_read import prompt_tokens, prompts_per_query


def row(strategy: str, **settings: object) -> LlmRerankerRow:
    return LlmRerankerRow.model_validate(
        {"name": "r", "strategy": strategy, "language_model": "qwen3-8b", **settings}
    )


@pytest.mark.parametrize(
    ("reranker", "prompts"),
    [
        (row("listwise"), 9),  # windows of 20 begin at 80, 70, ..., 10, 0
        (row("listwise", passes=3), 27),
        (row("groupwise", window=30, passes=2), 8),  # 30 + 30 + 30 + 10, twice
        (row("pointwise", samples=16), 1600),
        (row("probability"), 200),  # the reasoning, and one token
        # The first place takes windows at 80, 61, 42, 23, 4 and 0, the second one at 80, 61, 42, 23, 4 and 1.
        (row("setwise", window=20, sort="bubble", top=2), 12),
        (ListwiseEncoderRow(name="r", encoder="e"), 1),
    ],
)
def test_the_prompts_about_100_candidates_are_counted_by_hand(
    reranker: LlmRerankerRow | ListwiseEncoderRow, prompts: int
) -> None:
    assert prompts_per_query(reranker, 100) == prompts


@pytest.mark.parametrize("best_first", [True, False])
@pytest.mark.parametrize("count", [2, 9, 10, 27, 100])
def test_no_heap_asks_more_than_is_counted(count: int, best_first: bool) -> None:
    reranker = row("setwise", window=3, top=10)
    worth = range(count) if best_first else range(count, 0, -1)
    sort, asked = SORTS["heap"](range(count), 3, 10), 0

    try:
        shown = next(sort)
        while True:
            asked += 1
            shown = sort.send(max(range(len(shown)), key=lambda place: worth[shown[place]]))
    except StopIteration:
        pass

    assert 0 < asked <= prompts_per_query(reranker, count)


def test_one_candidate_needs_no_order() -> None:
    assert [prompts_per_query(row(strategy), 1) for strategy in ("listwise", "setwise", "pointwise")] == [0, 0, 0]


def test_a_prompt_has_the_query_and_the_passages_that_it_shows() -> None:
    # A query has 300 tokens and a passage 231, where they aren't known.
    assert prompt_tokens(row("listwise"), 100) == 300 + 20 * 231
    assert prompt_tokens(row("listwise"), 5) == 300 + 5 * 231
    assert prompt_tokens(row("pointwise"), 100) == 300 + 231
    # 30 words are 40 tokens, and 400 characters 100.
    assert prompt_tokens(row("listwise", passage_words=30), 100) == 300 + 20 * 40
    assert prompt_tokens(row("pointwise", passage_characters=400), 100) == 300 + 100
    assert prompt_tokens(ListwiseEncoderRow(name="r", encoder="e", max_length=512), 100) == 512
