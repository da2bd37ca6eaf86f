"""No text that is shown holds anything that looks like the id of a passage."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.reranking.shown_ids import without_ids


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("as shown [2]", "as shown (2)"),
        ("[3, 7-9] and [ 1 ; 2 ]", "(3, 7-9) and ( 1 ; 2 )"),
        ("[1] > [2] = [3]", "(1) > (2) = (3)"),
        ("[1 > 2]", "(1 > 2)"),
        ("【2】 ［3］ 〔4，5〕", "(2) (3) (4，5)"),
        ("[Doc 2] [passage_3] [ID: 4]", "(Doc 2) (passage_3) (ID: 4)"),
        ("[2 and 3] [Docs 2, 3 or 4]", "(2 and 3) (Docs 2, 3 or 4)"),
        ("[1≥2] [1 ≈ 2] [1~2]", "(1≥2) (1 ≈ 2) (1~2)"),
        ("[Doc] [Figure 2] [0.5, 0.9] [docile 2]", "[Doc] [Figure 2] [0.5, 0.9] [docile 2]"),
        ("[[2]]", "[(2)]"),
        ("[see 2] [a] [] [2", "[see 2] [a] [] [2"),
        ("p < 0.05 (n = 2)", "p < 0.05 (n = 2)"),
    ],
)
def test_numbers_in_brackets_are_shown_in_round_ones(text: str, shown: str) -> None:
    assert without_ids(text) == shown


@given(st.text(alphabet="[]【】［］0123456789>=,;， -\n", max_size=40))
def test_no_number_stays_in_brackets(text: str) -> None:
    assert re.search(r"[\[【［][\s>=,;，-]*\d[\d\s>=,;，-]*[\]】］]", without_ids(text)) is None
