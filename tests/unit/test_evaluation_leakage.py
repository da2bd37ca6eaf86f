"""Runs of 13 words that generated texts share with passages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.evaluation.leakage import WORDS, Leakage, find_leaks, normalised, shares_run
from r2med_ray.types import Expansion, Query

PASSAGE = (
    "Rubella in early pregnancy harms the heart, the eyes and the hearing of the unborn child; a vaccine prevents it."
)
"""20 words: rubella ... it."""


def shared(text: str, passage: str = PASSAGE, query: str = "") -> bool:
    return shares_run(normalised(text), normalised(passage), normalised(query))


def first_words(number: int) -> str:
    return " ".join(PASSAGE.split()[:number])


def test_words_are_compared_without_case_punctuation_and_forms_of_characters() -> None:
    assert (
        normalised("Na\u00efve\u2014T-CELLS,\n**x_y** \uff21\ufb01 Stra\u00dfe 1.5")
        == " na\u00efve t cells x y afi strasse 1 5 "
    )
    assert normalised("nai\u0308ve") == normalised("na\u00efve")  # one letter, or a letter and its mark
    assert normalised(" \n.") == "  "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (first_words(13), True),
        (first_words(12), False),
        (f"It is known: {first_words(13).upper().replace(' ', ' - ')}!", True),
        (PASSAGE.replace("\u0020", "\n"), True),
        # 12 words, another one, 7 more: no run of 13
        (PASSAGE.replace("and the hearing", "and hearing"), False),
        (" ".join(PASSAGE.split()[-13:]), True),
        # the last word of the run goes on: `of` is not `offspring`
        (f"{first_words(12)} offspring", False),
        ("", False),
    ],
)
def test_a_text_shares_a_run_from_13_words_on(text: str, expected: bool) -> None:
    assert len(PASSAGE.split()) == 20
    assert shared(text) is expected


def test_a_run_of_the_query_itself_does_not_count() -> None:
    assert not shared(first_words(13), query=first_words(13))
    # the 14th word is the writer's
    assert shared(first_words(14), query=first_words(13))


@given(before=st.integers(0, 30), start=st.integers(0, 20), length=st.integers(0, 20), after=st.integers(0, 30))
def test_a_run_is_found_wherever_it_stands(before: int, start: int, length: int, after: int) -> None:
    passage = [f"p{number}" for number in range(40)]
    copied = passage[start : start + length]
    text = [*(f"a{number}" for number in range(before)), *copied, *(f"z{number}" for number in range(after))]

    assert shared(" ".join(text), " ".join(passage)) is (length >= WORDS)


def query(query_id: str, *texts: str) -> Query:
    parts = tuple(Expansion(text=text, method="hyde") for text in texts)
    return Query(query_id=query_id, text="what harms the unborn", expansions=parts)


def test_leaks_are_counted_over_the_queries_with_a_text_and_a_judged_passage() -> None:
    judged = {"1": [normalised(PASSAGE)], "2": [normalised(PASSAGE)], "3": [normalised(PASSAGE)], "5": []}
    drawn = {"1": [normalised("quite another text")], "2": [normalised(PASSAGE)]}
    queries = [
        query("1", "nothing", PASSAGE),  # the second text leaks
        query("2", first_words(12), " ".join(PASSAGE.split()[12:])),  # no run goes from one text into another
        query("3"),  # has no text
        query("4", PASSAGE),  # nothing is judged
        query("5", PASSAGE),  # what is judged is not in the corpus
    ]

    found = find_leaks(queries, judged, drawn, seed=7)

    assert found == Leakage(asked=("1", "2"), leaked=("1",), by_chance=(), num_passages=2, num_random=2, seed=7)
    assert (found.share, found.share_by_chance) == (0.5, 0.0)
    by_chance = find_leaks([query("1", PASSAGE)], judged, {"1": [normalised(PASSAGE)]}, seed=7)
    assert by_chance.by_chance == ("1",)


def test_without_texts_there_is_no_share() -> None:
    found = find_leaks([query("3")], {"3": ["x"]}, {}, seed=7)

    assert (found.asked, found.share, found.share_by_chance) == ((), None, None)
