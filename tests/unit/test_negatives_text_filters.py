"""The filters of a text, with values that are worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.negatives.drafts import Check, Draft, Slot
from r2med_ray.negatives.generation_settings import FiltersConfig
from r2med_ray.negatives.near_copies import Shelf, copied_share, runs_of
from r2med_ray.negatives.text_filters import band, english_share, filtered

LIMITS = FiltersConfig()
POSITIVE = "the fever of the child is high and the rash is red"  # 12 words


def draft(text: str) -> Draft:
    return Draft(slot=Slot("q", "d0", "mimic", 1, 0), attempt=0, seed=1, text=text)


def test_runs_are_of_five_words_and_ignore_case_and_punctuation() -> None:
    # Seven words have 7 - 5 + 1 = 3 runs.
    assert runs_of("A b, c d. E f g") == {
        ("a", "b", "c", "d", "e"),
        ("b", "c", "d", "e", "f"),
        ("c", "d", "e", "f", "g"),
    }
    assert runs_of("a b") == {("a", "b")}


def test_the_copied_share_is_of_the_texts_own_runs() -> None:
    # The text has the runs abcde, bcdef, cdefx: 2 of 3 are in the source, whatever else the source has.
    assert copied_share(runs_of("a b c d e f x"), runs_of("a b c d e f g h i j")) == pytest.approx(2 / 3)


def test_the_nearest_text_is_by_jaccard_similarity() -> None:
    shelf = Shelf()
    shelf.add("near", runs_of("a b c d e f g"))  # abcde bcdef cdefg
    shelf.add("far", runs_of("a b c d e z y x w v"))  # abcde and five others
    shelf.add("none", runs_of("n n n n n"))

    # The text has abcde, bcdef. With `near` 2 of 2 + 3 - 2 = 3 runs are shared, with `far` 1 of 2 + 6 - 1 = 7.
    assert shelf.nearest(runs_of("a b c d e f")) == ("near", pytest.approx(2 / 3))
    assert shelf.nearest(runs_of("nothing of all this is there")) == ("", 0.0)


@given(st.lists(st.text("ab ", min_size=1, max_size=30), min_size=1, max_size=8), st.text("ab ", max_size=30))
def test_the_shelf_finds_what_a_comparison_with_all_texts_finds(texts: list[str], text: str) -> None:
    shelf, runs = Shelf(), runs_of(text)
    for number, each in enumerate(texts):
        shelf.add(str(number), runs_of(each))

    best = max(len(runs & other) / len(runs | other) for other in map(runs_of, texts))
    assert shelf.nearest(runs)[1] == pytest.approx(best)


def test_the_share_of_english_function_words() -> None:
    # the, of, the, is, and, the, is: 7 of 12 words.
    assert english_share(POSITIVE) == pytest.approx(7 / 12)
    assert english_share("La fièvre est élevée et la peau est rouge") == 0.0
    assert english_share("") == 0.0


def test_the_band_is_in_words_of_the_positive() -> None:
    # 0.5 × 12 = 6, and 1.5 × 12 = 18; one word at least.
    assert band(POSITIVE, LIMITS) == (6, 18)
    assert band("a", LIMITS) == (1, 2)


@pytest.mark.parametrize(
    ("text", "verdict", "value"),
    [
        pytest.param("the cough is not red", "length", 5, id="one word too short"),
        pytest.param("the cough " * 9 + "is", "length", 19, id="one word too long"),
        pytest.param("la toux est sèche et la peau est rouge", "language", 0.0, id="another language"),
        # 8 words have 4 runs: 3 lie within the first 7 words, which are the positive's: 0.75 is above 0.5.
        pytest.param("the fever of the child is high today", "copy", 0.75, id="most runs are the positive's"),
        # 9 words have 5 runs, 2 lie within the first six words: 0.4.
        pytest.param("the fever of the child is low and brief", "", 0.4, id="fewer runs are the positive's"),
    ],
)
def test_the_first_filter_that_a_text_fails_is_its_verdict(text: str, verdict: str, value: float) -> None:
    found = filtered(draft(text), POSITIVE, ["a question about it", POSITIVE], LIMITS)

    assert found.verdict == verdict
    name, last, passed = found.checks[-1]
    assert (name, last, passed) == (verdict or "copy", pytest.approx(value), not verdict)


def test_a_text_that_copies_another_positive_or_the_query_is_refused() -> None:
    text = "the cough of the man was dry"

    assert filtered(draft(text), POSITIVE, [POSITIVE, text], LIMITS).verdict == "copy"


def test_a_check_that_is_passed_leaves_no_verdict() -> None:
    checked = draft("a").checked("length", 1, True).checked("support", 2, False, "found positive: judge")

    assert checked.checks == (Check("length", 1, True), Check("support", 2, False))
    assert checked.verdict == "found positive: judge"
    # The id is a digest of kind and text: neither attempt nor seed changes it, another kind does.
    assert checked.doc_id == draft("a").doc_id != draft("b").doc_id
