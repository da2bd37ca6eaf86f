import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from r2med_ray.errors import DataError
from r2med_ray.protocols import Candidates, ChatPrompt, Completion
from r2med_ray.reranking.llm_reranking import LlmReranker, LlmReranking, Read, require_readable, window_starts
from r2med_ray.settings.templates import Template
from r2med_ray.types import Document, Query, Repairs, Reranking

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


def read(completion: Completion) -> tuple[str, str]:
    return completion.text, ""


def reranker(model: Reader, read: Read = read, **settings: object) -> LlmReranker:
    return LlmReranker(model, read, TEMPLATE, LlmReranking(**settings))  # type: ignore[arg-type]


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
    scores = reranker(Reader(best_first), window=3, step=1).score_all([candidates("q", 1, 2, 3, 4, 9)]).scores

    assert scores == {"q": [3.0, 2.0, 1.0, 4.0, 5.0]}


def test_the_same_turn_of_all_queries_and_passes_is_one_call() -> None:
    model = Reader(best_first)
    reranker(model, window=2, step=1, passes=2).score_all([candidates("a", 1, 2, 3), candidates("b", 1, 2)])

    # a has two windows in each of two passes, b one: turns of 2 + 2 and 2 prompts
    assert [len(prompts) for prompts in model.prompts] == [4, 2]


def test_groups_are_graded_at_once_and_compared_over_groups() -> None:
    model = Reader(one_line_each)
    # groups (5 0) and (9 5): 9 first, then both fives in the first stage's order, then 0
    scores = reranker(model, strategy="groupwise", window=2).score_all([candidates("q", 5, 0, 9, 5)]).scores

    assert scores == {"q": [3.0, 1.0, 4.0, 2.0]}
    assert [len(prompts) for prompts in model.prompts] == [2]


def test_who_is_not_graded_gets_the_lowest_grade_of_its_group() -> None:
    model = Reader(lambda grades: "[1]: 4\n[3]: 7")

    # d0 4, d1 no grade → 4, d2 7
    assert reranker(model, strategy="groupwise").score_all([candidates("q", 0, 0, 0)]) == Reranking(
        scores={"q": [2.0, 1.0, 3.0]}, repairs=Repairs(rules={"q": {"id missing": 1}})
    )


@pytest.mark.parametrize("strategy", ["listwise", "groupwise"])
@pytest.mark.parametrize("answer", ["", "I cannot rank these.", "[99] > [98]", "[2] > [2]", "[1]: x"])
def test_whatever_is_answered_every_candidate_keeps_a_rank_of_its_own(strategy: str, answer: str) -> None:
    asked = reranker(Reader(lambda _: answer), strategy=strategy, window=3, step=2, passes=3)
    scores = asked.score_all([candidates("q", 1, 2, 3, 4, 5, 6, 7)]).scores

    assert sorted(scores["q"]) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [pytest.param("", "no list", id="whole"), pytest.param("cut at limit", "cut at limit", id="cut")],
)
def test_an_unreadable_answer_keeps_the_order_and_says_why(flaw: str, reason: str) -> None:
    asked = reranker(Reader(lambda _: "no idea"), lambda completion: (completion.text, flaw))

    assert asked.score_all([candidates("q", 1, 2, 3)]) == Reranking(
        scores={"q": [3.0, 2.0, 1.0]}, repairs=Repairs(unreadable={"q": {reason: 1}})
    )


@pytest.mark.parametrize("strategy", ["listwise", "groupwise"])
def test_repairs_are_counted_per_query_over_windows_and_passes(strategy: str) -> None:
    """A query of two candidates is answered without a list, one of three about its first two, one of four well."""

    def answer(grades: dict[int, float]) -> str:
        shown = {number: 5.0 for number in grades if len(grades) != 3 or number < 3}
        if len(grades) == 2:
            return "no idea"
        return one_line_each(shown) if strategy == "groupwise" else best_first(shown)

    asked = reranker(Reader(answer), strategy=strategy, passes=2)
    repairs = asked.score_all([candidates("a", 1, 2), candidates("b", 1, 2, 3), candidates("c", 1, 2, 3, 4)]).repairs

    # two passes of one window each
    assert repairs == Repairs(rules={"b": {"id missing": 2}}, unreadable={"a": {"no list": 2}})


def reranked(*unreadable: str, asked: int, **reasons: int) -> Reranking:
    """Return what came of `asked` queries with two candidates and one that had nothing to order."""
    scores = {**{f"q{number}": [2.0, 1.0] for number in range(asked)}, "alone": [1.0]}
    return Reranking(scores=scores, repairs=Repairs(unreadable=dict.fromkeys(unreadable, reasons)))


def test_answers_may_be_unreadable_up_to_the_limit() -> None:
    # 29 of 100 is the limit; as a product, 0.29 × 100 is below 29
    within = reranked(*(f"q{number}" for number in range(29)), asked=100, empty=1)

    require_readable(within, max_unusable=0.29, unit="s on T")
    require_readable(reranked(asked=0), max_unusable=0.0, unit="s on T")
    repaired = replace(within, repairs=Repairs(rules={"q1": {"id missing": 3}}))
    require_readable(repaired, max_unusable=0.0, unit="s on T")


def test_too_many_unreadable_answers_are_refused_with_queries_reasons_and_a_way_out() -> None:
    with pytest.raises(DataError) as raised:
        require_readable(reranked("q1", "q3", asked=4, empty=1, refusal=2), max_unusable=0.4, unit="s on T")

    # two queries, each with one empty answer and two refusals; the fifth query was not asked about
    assert str(raised.value) == (
        "s on T: 2 of 4 queries have answers of the reranker that nothing can be read from (refusal: 4, empty: 2), "
        "40% may: q1, q3. Answers are kept, so the same settings give the same ones: set another `seed` in the "
        "reranker's row, a larger `max_tokens` in its language model's, or a larger `max_unusable` of the reranker"
    )


def test_a_refusal_names_ten_queries_and_counts_the_others() -> None:
    with pytest.raises(DataError, match=r"0% may: q0, .*, q9 and 2 more\."):
        require_readable(reranked(*(f"q{n}" for n in range(12)), asked=12, empty=1), max_unusable=0, unit="s on T")


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
    scores = reranker(model, passes=2, seed=42).score_all([candidates("q", 10, 20, 30)]).scores
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

    assert reranker(model, strategy=strategy).score_all([candidates("a", 7), candidates("b")]) == Reranking(
        scores={"a": [1.0], "b": []}
    )
    assert model.prompts == []
