import re
from collections.abc import Callable, Mapping, Sequence

import pytest

from r2med_ray.protocols import Candidates, ChatPrompt, Completion
from r2med_ray.retrieval.llm_reranking import LlmReranker, LlmReranking, window_starts
from r2med_ray.templates import Template
from r2med_ray.types import Document, Query

TEMPLATE = Template(version="1", text="Q {query}\n{passages}\nn={count}")


class Reader:
    """A language model that reads the prompt's passages, whose texts are grades, and answers like an obedient one.

    Args:
        answer: makes the answer out of the ids and grades of a prompt.
    """

    def __init__(self, answer: Callable[[dict[int, float]], str]) -> None:
        self.prompts: list[list[ChatPrompt]] = []
        self._answer = answer

    def inputs(self) -> Mapping[str, str]:
        return {"model": "reader"}

    def generate(
        self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        self.prompts.append(list(prompts))
        return [
            Completion(text=self._answer(_grades(prompt)), reasoning="", finish_reason="stop") for prompt in prompts
        ]


def _grades(prompt: ChatPrompt) -> dict[int, float]:
    lines = re.findall(r"^\[(\d+)\] (?:\(score \S+\) )?(\S+)", prompt.messages[0]["content"], re.MULTILINE)
    return {int(number): float(grade) for number, grade in lines}


def best_first(grades: dict[int, float]) -> str:
    return " > ".join(f"[{number}]" for number in sorted(grades, key=lambda number: -grades[number]))


def one_line_each(grades: dict[int, float]) -> str:
    return "\n".join(f"[{number}]: {grade}" for number, grade in grades.items())


def candidates(query_id: str, *grades: float) -> Candidates:
    documents = [Document(doc_id=f"d{i}", text=f"{grade}") for i, grade in enumerate(grades)]
    scores = [float(len(grades) - i) for i in range(len(grades))]
    return Candidates(Query(query_id=query_id, text="rash"), documents, scores)


def reranker(model: Reader, **settings: object) -> LlmReranker:
    return LlmReranker(model, lambda completion: completion.text, TEMPLATE, LlmReranking(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("length", "starts"),
    [
        pytest.param(0, [], id="nothing to order"),
        pytest.param(1, [], id="nothing to compare"),
        pytest.param(3, [0], id="shorter than a window"),
        pytest.param(4, [0], id="one window"),
        # windows of 4 from the end by 2: 6..9, 4..7, 2..5, 0..3
        pytest.param(10, [6, 4, 2, 0], id="several"),
        # 5..8, 3..6, 1..4, and the head 0..3
        pytest.param(9, [5, 3, 1, 0], id="the last one begins at the head"),
    ],
)
def test_windows_go_from_the_end_to_the_head(length: int, starts: list[int]) -> None:
    assert window_starts(length, 4, 2) == starts


def test_what_is_good_rises_from_the_end_to_the_head() -> None:
    # windows of 3 by 1 over grades 1 2 3 4 9: [3 4 9] → 9 4 3; then [2 9 4] → 9 4 2; then [1 9 4] → 9 4 1
    # order: 9 4 1 2 3, that is d4 d3 d0 d1 d2; of 5 candidates the first has score 5
    scores = reranker(Reader(best_first), window=3, step=1).score_all([candidates("q", 1, 2, 3, 4, 9)])

    assert scores == {"q": [3.0, 2.0, 1.0, 4.0, 5.0]}


def test_the_same_turn_of_all_queries_and_passes_is_one_call() -> None:
    model = Reader(best_first)
    reranker(model, window=2, step=1, passes=2).score_all([candidates("a", 1, 2, 3), candidates("b", 1, 2)])

    # a has two windows in each of two passes, b one: turns of 2 + 2 and 2 prompts
    assert [len(prompts) for prompts in model.prompts] == [4, 2]


def test_groups_are_graded_at_once_and_compared_over_groups() -> None:
    model = Reader(one_line_each)
    # groups (5 0) and (9 5): 9 first, then both fives in the first stage's order, then 0
    scores = reranker(model, strategy="groupwise", window=2).score_all([candidates("q", 5, 0, 9, 5)])

    assert scores == {"q": [3.0, 1.0, 4.0, 2.0]}
    assert [len(prompts) for prompts in model.prompts] == [2]


def test_who_is_not_graded_gets_the_lowest_grade_of_its_group() -> None:
    model = Reader(lambda grades: "[1]: 4\n[3]: 7")
    asked = reranker(model, strategy="groupwise")

    # d0 4, d1 no grade → 4, d2 7
    assert asked.score_all([candidates("q", 0, 0, 0)]) == {"q": [2.0, 1.0, 3.0]}
    assert asked.repairs == {"id missing": 1}


@pytest.mark.parametrize("strategy", ["listwise", "groupwise"])
@pytest.mark.parametrize("answer", ["", "I cannot rank these.", "[99] > [98]", "[2] > [2]", "[1]: x"])
def test_whatever_is_answered_every_candidate_keeps_a_rank_of_its_own(strategy: str, answer: str) -> None:
    scores = reranker(Reader(lambda _: answer), strategy=strategy, window=3, step=2, passes=3).score_all(
        [candidates("q", 1, 2, 3, 4, 5, 6, 7)]
    )

    assert sorted(scores["q"]) == [1, 2, 3, 4, 5, 6, 7]


def test_an_unreadable_answer_keeps_the_order_and_is_counted() -> None:
    asked = reranker(Reader(lambda _: "no idea"))

    assert asked.score_all([candidates("q", 1, 2, 3)]) == {"q": [3.0, 2.0, 1.0]}
    assert asked.repairs == {"no list": 1}


def test_shuffled_passes_take_away_what_a_place_gives() -> None:
    """A model that always prefers the place shown first has no say once places are shuffled often enough."""
    first_shown = Reader(lambda grades: " > ".join(f"[{number}]" for number in grades))
    shown = set()
    asked = reranker(first_shown, passes=30)
    asked.score_all([candidates("q", *range(6))])
    for prompt in first_shown.prompts[0]:
        shown.add(_grades(prompt)[1])

    assert len(shown) == 6


def test_passes_are_seeded_by_query_and_number() -> None:
    def texts(seed: int) -> list[str]:
        model = Reader(best_first)
        reranker(model, passes=3, seed=seed).score_all([candidates("q", *range(8))])
        return [prompt.messages[0]["content"] for prompt in model.prompts[0]]

    assert texts(1) == texts(1)
    assert texts(1)[0] == texts(2)[0]  # the first pass keeps the first stage's order
    assert texts(1)[1:] != texts(2)[1:]


def test_passes_are_fused_by_reciprocal_rank() -> None:
    # pass 1 says d1 d0 d2, pass 2 (whatever is shown) is unreadable and keeps its shuffled order
    answers = iter(["[2] > [1] > [3]", "?"])
    model = Reader(lambda _: next(answers))
    scores = reranker(model, passes=2, seed=42).score_all([candidates("q", 10, 20, 30)])
    second = [int(grade) // 10 - 1 for grade in _grades(model.prompts[0][1]).values()]
    fused = dict.fromkeys(range(3), 0.0)
    for order in ([1, 0, 2], second):
        for rank, position in enumerate(order, start=1):
            fused[position] += 1 / (60 + rank)
    expected = sorted(fused, key=lambda position: (-fused[position], position))

    assert [scores["q"][position] for position in expected] == [3.0, 2.0, 1.0]


def test_passages_are_numbered_cut_and_may_show_the_first_stages_scores() -> None:
    query = Query(query_id="q", text="Why {count}?")
    work = [Candidates(query, [Document(doc_id="a", title="7", text="one two three\nfour")], [12.34567])]
    two = [work[0]._replace(documents=work[0].documents * 2, scores=[12.34567, 0.5])]
    model = Reader(lambda _: "[1] > [2]")
    reranker(model, show_scores=True, passage_words=3).score_all(two)

    prompt = model.prompts[0][0]
    assert prompt.messages == (
        {"role": "user", "content": "Q Why {count}?\n[1] (score 12.35) 7 one two\n[2] (score 0.5) 7 one two\nn=2"},
    )
    assert prompt.unit == "query 'q', pass 1, window 1"


@pytest.mark.parametrize("strategy", ["listwise", "groupwise"])
def test_one_candidate_or_none_asks_nothing(strategy: str) -> None:
    model = Reader(best_first)

    assert reranker(model, strategy=strategy).score_all([candidates("a", 7), candidates("b")]) == {
        "a": [1.0],
        "b": [],
    }
    assert model.prompts == []
