import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.cuts import Cuts
from r2med_ray.demands import Ask, Demand, Keep, Recall
from r2med_ray.errors import ConfigError
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.llm_prompts import LlmReranking, Strategy
from r2med_ray.reranking.llm_reranking import LlmReranker, Read, build_llm_reranker
from r2med_ray.reranking.prompt_files import TextPrompt
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query, Repairs, Reranking
from tests.fakes import answer, kept_in

TEMPLATE = Template(version="1", text="Q {query}\n{passages}\nn={count}")


class Reader:
    """A language model that reads the passages of a prompt, whose texts are grades, and answers as it was asked.

    Args:
        says: makes the answer out of the ids and grades of a prompt. None means that the model has no room for it.
        model: a name that is part of the keys of its texts.
    """

    name = "reader"
    answer_format = "plain"

    def __init__(self, says: Callable[[dict[int, float]], str | None], model: str = "reader") -> None:
        self.prompts: list[list[ChatPrompt]] = []
        self._says = says
        self._model = model

    def generation_inputs(self) -> Mapping[str, str]:
        return {"model": self._model}

    def answer(self, demand: Ask) -> list[Completion | None]:
        assert demand.model is self
        self.prompts.append(list(demand.prompts))
        said = [self._says(_grades(prompt)) for prompt in demand.prompts]
        return [None if text is None else Completion(text=text, reasoning="", finish_reason="stop") for text in said]


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
    asked = LlmReranking(**settings)  # type: ignore[arg-type]
    return LlmReranker(model, read, TextPrompt(TEMPLATE), asked, asked.limit())


def nothing_kept(demand: Recall) -> list[None]:
    return [None for _ in demand.keys]


def rerank(model: Reader, work: Sequence[Candidates], read: Read = read, **settings: object) -> Reranking:
    """Rerank with a model that has never been asked."""
    steps = reranker(model, read, **settings).score_all(work)
    return answer(steps, {Ask: model.answer, Recall: nothing_kept, Keep: lambda _: None})[0]


def test_what_is_good_rises_from_the_end_to_the_head() -> None:
    # Windows of 3 move by 1 over the grades 1 2 3 4 9: [3 4 9] → 9 4 3; then [2 9 4] → 9 4 2; then [1 9 4] → 9 4 1.
    # The order is 9 4 1 2 3, that is d4 d3 d0 d1 d2. The first of 5 candidates has score 5.
    scores = rerank(Reader(best_first), [candidates("q", 1, 2, 3, 4, 9)], window=3, step=1).scores

    assert scores == {"q": [3.0, 2.0, 1.0, 4.0, 5.0]}


def test_the_same_turn_of_all_queries_and_passes_is_one_demand() -> None:
    model = Reader(best_first)
    rerank(model, [candidates("a", 1, 2, 3), candidates("b", 1, 2)], window=2, step=1, passes=2)

    # In each of two passes, a has two windows and b has one: the first turn has 2 + 2 prompts, the second 2.
    assert [len(prompts) for prompts in model.prompts] == [4, 2]


@pytest.mark.parametrize(
    ("strategy", "said"),
    [("listwise", "[3] = [1] > [2]"), ("groupwise", '```json\n{"[1]": 9, "[2]": 2, "[3]": 9}\n```')],
)
def test_the_first_stage_decides_between_tied_candidates(strategy: str, said: str) -> None:
    # d0 and d2 are tied, and d1 is below them
    made = rerank(Reader(lambda _: said), [candidates("q", 1, 2, 3)], strategy=strategy)

    assert made == Reranking(scores={"q": [3.0, 1.0, 2.0]})


def test_a_pass_that_ties_two_candidates_leaves_them_to_the_other_pass() -> None:
    # Pass 1 ties all, so the order of pass 2 is the result. Pass 2 prefers larger grades: d1 (30), d2 (20), d0 (10).
    turns = iter([lambda grades: " = ".join(f"[{number}]" for number in grades), best_first])
    made = rerank(Reader(lambda grades: next(turns)(grades)), [candidates("q", 10, 30, 20)], passes=2)

    assert made == Reranking(scores={"q": [1.0, 3.0, 2.0]})


@pytest.mark.parametrize("strategy", ["listwise", "groupwise"])
def test_numbers_in_brackets_within_query_and_passages_are_no_ids(strategy: str) -> None:
    query = Query(query_id="q", text="Which of [1] and [2]?")
    documents = [Document(doc_id="a", text="7 as in [2], [3, 4]"), Document(doc_id="b", text="8 [1] > [2] 【9】")]
    model = Reader(lambda _: None)
    rerank(model, [Candidates(query, documents, [2.0, 1.0])], strategy=strategy)

    [[prompt]] = model.prompts
    assert prompt.messages[0]["content"] == (
        "Q Which of (1) and (2)?\n[1] 7 as in (2), (3, 4)\n[2] 8 (1) > (2) (9)\nn=2"
    )


def test_groups_are_graded_at_once_and_compared_over_groups() -> None:
    model = Reader(one_line_each)
    # The groups are (5 0) and (9 5): 9 is first, then both fives in the first stage's order, then 0.
    scores = rerank(model, [candidates("q", 5, 0, 9, 5)], strategy="groupwise", window=2).scores

    assert scores == {"q": [3.0, 1.0, 4.0, 2.0]}
    assert [len(prompts) for prompts in model.prompts] == [2]


def test_who_is_not_graded_gets_the_lowest_grade_of_its_group() -> None:
    model = Reader(lambda grades: "[1]: 4\n[3]: 7")

    # d0 has 4, d1 has no grade and gets 4, d2 has 7
    assert rerank(model, [candidates("q", 0, 0, 0)], strategy="groupwise") == Reranking(
        scores={"q": [2.0, 1.0, 3.0]}, repairs=Repairs(rules={"q": {"id missing": 1}})
    )


@pytest.mark.parametrize("strategy", ["listwise", "groupwise", "setwise"])
@pytest.mark.parametrize("said", ["", "I cannot rank these.", "[99] > [98]", "[2] > [2]", "[1]: x"])
def test_whatever_is_answered_every_candidate_keeps_a_rank_of_its_own(strategy: str, said: str) -> None:
    work = [candidates("q", 1, 2, 3, 4, 5, 6, 7)]
    scores = rerank(Reader(lambda _: said), work, strategy=strategy, window=3, step=2, passes=3).scores

    assert sorted(scores["q"]) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [pytest.param("", "no list", id="whole"), pytest.param("cut at limit", "cut at limit", id="cut")],
)
def test_an_unreadable_answer_keeps_the_order_and_says_why(flaw: str, reason: str) -> None:
    model = Reader(lambda _: "no idea")

    assert rerank(model, [candidates("q", 1, 2, 3)], lambda completion: (completion.text, flaw)) == Reranking(
        scores={"q": [3.0, 2.0, 1.0]}, repairs=Repairs(unreadable={"q": {reason: 1}})
    )


@pytest.mark.parametrize("strategy", ["listwise", "groupwise"])
def test_a_prompt_without_room_in_the_model_changes_nothing_and_is_counted(strategy: str) -> None:
    def says(grades: dict[int, float]) -> str | None:
        if 9 in grades.values():
            return None
        return one_line_each(grades) if strategy == "groupwise" else best_first(grades)

    # The windows are (1 2) and (9 8). The second isn't answered, so it keeps its order, and its group has grade 0.
    made = rerank(Reader(says), [candidates("q", 1, 2, 9, 8)], strategy=strategy, window=2, step=2)

    assert made == Reranking(
        scores={"q": [3.0, 4.0, 2.0, 1.0]}, repairs=Repairs(unreadable={"q": {"context limit": 1}})
    )


@pytest.mark.parametrize("strategy", ["listwise", "groupwise"])
def test_repairs_are_counted_per_query_over_windows_and_passes(strategy: str) -> None:
    """The answer for two candidates has no list, the one for three lacks the third, the one for four is complete."""

    def says(grades: dict[int, float]) -> str:
        shown = {number: 5.0 for number in grades if len(grades) != 3 or number < 3}
        if len(grades) == 2:
            return "no idea"
        return one_line_each(shown) if strategy == "groupwise" else best_first(shown)

    work = [candidates("a", 1, 2), candidates("b", 1, 2, 3), candidates("c", 1, 2, 3, 4)]
    repairs = rerank(Reader(says), work, strategy=strategy, passes=2).repairs

    # there are two passes, each of one window
    assert repairs == Repairs(rules={"b": {"id missing": 2}}, unreadable={"a": {"no list": 2}})


def test_shuffled_passes_take_away_what_a_place_gives() -> None:
    """A model that always prefers the first place decides nothing, because each candidate is there sometimes."""
    first_shown = Reader(lambda grades: " > ".join(f"[{number}]" for number in grades))
    shown = set()
    rerank(first_shown, [candidates("q", *range(6))], passes=30)
    for prompt in first_shown.prompts[0]:
        shown.add(_grades(prompt)[1])

    assert len(shown) == 6


def test_passes_are_seeded_by_query_and_number() -> None:
    def texts(seed: int) -> list[str]:
        model = Reader(best_first)
        rerank(model, [candidates("q", *range(8))], passes=3, seed=seed)
        return [prompt.messages[0]["content"] for prompt in model.prompts[0]]

    assert texts(1) == texts(1)
    assert texts(1)[0] == texts(2)[0]  # the first pass keeps the first stage's order
    assert texts(1)[1:] != texts(2)[1:]


def test_passes_are_fused_by_reciprocal_rank() -> None:
    # The answer of pass 1 is d1 d0 d2. The answer of pass 2 is unreadable, so pass 2 keeps its shuffled order.
    answers = iter(["[2] > [1] > [3]", "?"])
    model = Reader(lambda _: next(answers))
    scores = rerank(model, [candidates("q", 10, 20, 30)], passes=2, seed=42).scores
    second = [int(grade) // 10 - 1 for grade in _grades(model.prompts[0][1]).values()]
    fused = dict.fromkeys(range(3), 0.0)
    for order in ([1, 0, 2], second):
        for rank, position in enumerate(order, start=1):
            fused[position] += 1 / (60 + rank)
    expected = sorted(fused, key=lambda position: (-fused[position], position))

    assert [scores["q"][position] for position in expected] == [3.0, 2.0, 1.0]


def best_only(grades: dict[int, float]) -> str:
    return f"<answer>[{max(grades, key=lambda number: grades[number])}]</answer>"


@pytest.mark.parametrize("sort", ["heap", "bubble"])
def test_a_sort_that_asks_for_the_best_of_three_finds_the_first_two(sort: str) -> None:
    model = Reader(best_only)
    work = [candidates("a", 1, 5, 3, 9, 2), candidates("b", 4, 6)]
    scores = rerank(model, work, strategy="setwise", window=3, sort=sort, top=2).scores

    # a: d3 (9) and d1 (5) are first; of the others nothing is known but that they follow. b: d1 (6), d0 (4).
    assert scores["a"][3] == 5.0
    assert scores["a"][1] == 4.0
    assert sorted(scores["a"]) == [1, 2, 3, 4, 5]
    assert scores["b"] == [1.0, 2.0]
    assert len(model.prompts[0]) == 2  # the first questions of both queries are asked together


def test_a_choice_that_cannot_be_read_is_left_to_the_first_stage_and_counted() -> None:
    made = rerank(Reader(lambda _: "no idea"), [candidates("q", 1, 2, 3, 4)], strategy="setwise", window=3, top=2)

    # The heap d0 (d1 d2), d1 (d3) takes two questions to build. Without d0, d3 is above (d1 d2): one more question.
    # Then d1 is the best. The first stage's order stays.
    assert made == Reranking(scores={"q": [4.0, 3.0, 2.0, 1.0]}, repairs=Repairs(unreadable={"q": {"no list": 3}}))


def test_grades_of_shuffled_passes_are_averaged() -> None:
    # Pass 1 gives the grades as they are, 8 4 6. Pass 2 gives 4 to all. Means of 10: 0.6, 0.4, 0.5.
    turns = iter([one_line_each, lambda grades: one_line_each(dict.fromkeys(grades, 4))])
    model = Reader(lambda grades: next(turns)(grades))
    settings = {"strategy": "groupwise", "passes": 2, "fuse": "mean", "shuffle_first": True}
    made = rerank(model, [candidates("q", 8, 4, 6)], **settings)

    assert made == Reranking(scores={"q": [3.0, 1.0, 2.0]}, values={"q": [0.6, 0.4, 0.5]})


def test_the_first_pass_is_shuffled_where_it_is_wanted() -> None:
    def first_prompt(shuffle_first: bool) -> list[float]:
        model = Reader(one_line_each)
        rerank(model, [candidates("q", *range(8))], strategy="groupwise", shuffle_first=shuffle_first)
        return list(_grades(model.prompts[0][0]).values())

    assert first_prompt(False) == [*range(8)]
    assert first_prompt(True) != first_prompt(False)
    assert sorted(first_prompt(True)) == [*range(8)]


def test_mean_grades_are_kept_and_read_again(tmp_path: Path) -> None:
    store, model = ArtifactStore(str(tmp_path)), Reader(one_line_each)
    asked = reranker(model, strategy="groupwise", fuse="mean")
    work = [candidates("b", 9, 2), candidates("a", 5)]

    first, _ = answer(asked.score_all(work), {Ask: model.answer, **kept_in(store)})
    again, _ = answer(asked.score_all(work), kept_in(store))

    # nobody is asked about a single candidate, so it has no grade
    assert again == first == Reranking(scores={"b": [2.0, 1.0], "a": [1.0]}, values={"b": [0.9, 0.2], "a": [0.0]})


def test_passages_are_numbered_cut_and_may_show_the_first_stages_scores() -> None:
    query = Query(query_id="q", text="Why {count}?")
    work = [Candidates(query, [Document(doc_id="a", title="7", text="one two three\nfour")], [12.34567])]
    two = [work[0]._replace(documents=work[0].documents * 2, scores=[12.34567, 0.5])]
    model = Reader(lambda _: "[1] > [2]")
    rerank(model, two, show_scores=True, passage_words=3)

    prompt = model.prompts[0][0]
    assert prompt.messages == (
        {"role": "user", "content": "Q Why {count}?\n[1] (score 12.35) 7 one two\n[2] (score 0.5) 7 one two\nn=2"},
    )
    assert prompt.unit == "query 'q', pass 1, window 1"


@pytest.mark.parametrize("strategy", ["listwise", "groupwise"])
def test_one_candidate_or_none_asks_nothing(strategy: str) -> None:
    model = Reader(best_first)

    assert rerank(model, [candidates("a", 7), candidates("b")], strategy=strategy) == Reranking(
        scores={"a": [1.0], "b": []}
    )
    assert model.prompts == []


def test_a_finished_order_is_kept_and_read_again_without_asking(tmp_path: Path) -> None:
    """The repairs are kept too. Both times they are in the order of a stored file."""
    store = ArtifactStore(str(tmp_path))
    model = Reader(lambda grades: "no idea" if len(grades) == 2 else "[9] > [2]")
    work = [candidates("c", 1, 2, 3), candidates("b", 1, 2), candidates("a", 1, 2), candidates("d", 1, 2, 3)]

    first, demanded = answer(reranker(model).score_all(work), {Ask: model.answer, **kept_in(store)})
    again, repeated = answer(reranker(model).score_all(work), kept_in(store))

    assert types(demanded) == [Recall, Ask, Keep]
    assert types(repeated) == [Recall]
    assert again == first
    assert [*again.repairs.rules] == [*first.repairs.rules] == ["c", "d"]
    assert [*again.repairs.unreadable] == [*first.repairs.unreadable] == ["a", "b"]
    assert [*again.repairs.rules["c"].items()] == [*first.repairs.rules["c"].items()]


def types(demanded: Sequence[Demand]) -> list[type]:
    return [type(demand) for demand in demanded]


def key(asked: LlmReranker, work: Sequence[Candidates]) -> str:
    """Return the name of the artefact that a reranker looks for."""
    recall = next(asked.score_all(work))
    assert isinstance(recall, Recall)
    [only] = recall.keys
    return only.name


@pytest.mark.parametrize("show_scores", [False, True])
def test_other_scores_of_the_first_stage_matter_where_they_are_shown(show_scores: bool) -> None:
    one = candidates("q", 1, 2)
    asked = reranker(Reader(best_first), show_scores=show_scores)

    assert (key(asked, [one]) != key(asked, [one._replace(scores=[9.0, 1.0])])) is show_scores


@pytest.mark.parametrize(
    "change",
    [
        *({"strategy": "groupwise"}, {"window": 3}, {"step": 1}, {"passes": 2}, {"passage_words": 1}, {"seed": 1}),
        *({"strategy": "setwise"}, {"sort": "bubble"}, {"top": 3}, {"samples": 2}, {"raw": True}, {"yes": "y"}),
        *({"no": "n"}, {"closing": "x"}, {"stop": ("x",)}, {"tokenizer": {"tokenizer": "t"}}, {"passage_tokens": 9}),
        *({"shuffle_first": True}, {"fuse": "mean"}, {"best_grade": 5.0}, {"passage_characters": 300}),
    ],
)
def test_every_setting_is_part_of_the_key(change: dict[str, object]) -> None:
    work, model = [candidates("q", 1, 2)], Reader(best_first)

    assert key(reranker(model, **change), work) != key(reranker(model), work)


def test_orders_that_were_kept_by_these_rules_are_found() -> None:
    """The name is that of version 5 of the rules, and of version 1 of the shipped listwise prompt."""
    documents = [Document(doc_id="d1", text="rash"), Document(doc_id="d2", text="fever", title="T")]
    work = [Candidates(Query(query_id="q1", text="rash"), documents, (2.0, 1.0))]
    asked = build_llm_reranker(Reader(best_first, model="m"), read, LlmReranking())

    assert key(asked, work) == "rerank/d3582b3190aa94fd3a2b325109fb5bdf"


@pytest.mark.parametrize(
    ("strategy", "think", "ending"),
    [
        pytest.param("listwise", False, "each once, in this form: [2] > [1] > ...", id="an order"),
        pytest.param("listwise", True, "to the least useful, in this form: [2] > [1] > ...", id="thoughts, an order"),
        pytest.param("groupwise", False, "nothing else, in this form:\n[1]: grade", id="grades"),
        pytest.param("groupwise", True, "one line per passage, in this form:\n[1]: grade", id="thoughts, grades"),
    ],
)
def test_each_strategy_has_its_prompt_with_and_without_thoughts(strategy: str, think: bool, ending: str) -> None:
    model = Reader(best_first)
    settings = LlmReranking(strategy=strategy)  # type: ignore[arg-type]
    steps = build_llm_reranker(model, read, settings, think=think).score_all([candidates("q", 1, 2)])
    answer(steps, {Ask: model.answer, Recall: nothing_kept, Keep: lambda _: None})

    [[prompt]] = model.prompts
    assert prompt.messages[0]["content"].endswith(ending)


def test_a_prompt_file_of_ones_own_takes_the_shipped_ones_place(tmp_path: Path) -> None:
    own, wrong = tmp_path / "own.txt", tmp_path / "wrong.txt"
    own.write_text("version: 1\nOurs: {query}\n{passages}\n{count}\n")
    wrong.write_text("version: 1\nOurs: {query}\n{passages}\n")
    model = Reader(best_first)
    steps = build_llm_reranker(model, read, LlmReranking(), prompt=str(own)).score_all([candidates("q", 1, 2)])
    answer(steps, {Ask: model.answer, Recall: nothing_kept, Keep: lambda _: None})

    assert model.prompts[0][0].messages[0]["content"] == "Ours: rash\n[1] 1\n[2] 2\n2"
    with pytest.raises(ConfigError, match=r"wrong\.txt: the prompt has no place \{count\}"):
        build_llm_reranker(model, read, LlmReranking(), prompt=str(wrong))


def test_words_that_the_model_is_not_shown_of_a_passage_are_counted() -> None:
    model = Reader(best_first)
    documents = [Document(doc_id="a", text="1 is good"), Document(doc_id="b", title="2 is", text="much better")]
    work = [Candidates(Query(query_id="q", text="rash and fever"), documents, [2.0, 1.0])]
    kept: list[Keep] = []
    steps = reranker(model, passage_words=3, passes=2).score_all(work)

    reranking, _ = answer(steps, {Ask: model.answer, Recall: nothing_kept, Keep: kept.append})

    # The passages have 3 and 4 words, and each counts once, though both passes show it. Queries are shown whole.
    assert reranking.cuts == {
        "query": Cuts(texts=2, tokens=6, unit="words"),
        "document": Cuts(texts=2, cut=1, tokens=7, lost=1, lengths=(3,), unit="words"),
    }
    assert "cuts.json" in kept[0].files


def test_grades_that_are_not_as_the_prompt_file_says_are_read_and_counted(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text('prefix: "{query}\\n"\nbody: "[{rank}] {candidate}\\n"\noutput_validation_regex: "^graded:"\n')
    model = Reader(lambda grades: ("graded:\n" if 7.0 in grades.values() else "") + one_line_each(grades))
    build = build_llm_reranker(model, read, LlmReranking(strategy="groupwise"), prompt=str(own))
    work = [candidates("q", 1.0, 7.0), candidates("other", 9.0, 2.0)]

    made, _ = answer(build.score_all(work), {Ask: model.answer, Recall: nothing_kept, Keep: lambda _: None})

    # Two candidates get 2 and 1 by their ranks.
    assert made.scores == {"q": [1.0, 2.0], "other": [2.0, 1.0]}
    assert made.repairs.rules == {"other": {"not as the prompt file says": 1}}


@pytest.mark.parametrize(
    ("strategy", "key", "what"),
    [
        ("groupwise", "output_extraction_regex", "grades beside ids"),
        ("probability", "output_extraction_regex", "the token after the reasoning"),
        ("probability", "output_validation_regex", "the token after the reasoning"),
    ],
)
def test_an_expression_that_nothing_would_read_is_refused_with_the_name_of_the_row(
    tmp_path: Path, strategy: Strategy, key: str, what: str
) -> None:
    own = tmp_path / "own.yaml"
    place = "{doc_content}" if strategy == "probability" else "[{rank}] {candidate}"
    own.write_text(f"body: '{place} {{query}}'\n{key}: '([0-9]+)'\n")
    asked = LlmReranking(strategy=strategy)

    with pytest.raises(ConfigError, match=f"reranker 'mine' reads {what}, and no list of ids: leave `{key}` out"):
        build_llm_reranker(Reader(one_line_each), read, asked, prompt=str(own), name="mine")
