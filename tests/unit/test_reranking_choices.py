import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.reranking.choices import read_choice


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        # as Rank-R1 answers
        ("<think>[1] is weak, [3] fits.</think> <answer>[3]</answer>", 2),
        ("<answer>3</answer>", 2),
        ("<answer>Passage 2</answer>", 1),
        ("[2]", 1),
        ("**[2]**", 1),
        ("2.", 1),
        ("The best one is [3].", 2),
        ("[3] > [1] > [2]", 2),
        ("[3] = [2] > [1]", 1),  # tied: the first of the shown order
        ("[9]", None),
        ("9", None),
        ("", None),
        ("none of them", None),
    ],
)
def test_the_best_of_three_is_read(answer: str, place: int | None) -> None:
    assert read_choice(answer, 3) == place


@given(st.text(), st.integers(1, 20))
def test_any_text_names_a_shown_passage_or_none(answer: str, shown: int) -> None:
    assert read_choice(answer, shown) in (None, *range(shown))
