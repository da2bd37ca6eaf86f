from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.retrieval.permutations import read_grades, read_permutation


@pytest.mark.parametrize(
    ("answer", "positions", "repairs"),
    [
        pytest.param("[2] > [3] > [1]", (1, 2, 0), {}, id="as asked for"),
        pytest.param("2 > 3 > 1", (1, 2, 0), {}, id="without brackets"),
        pytest.param("[2], [3], [1]", (1, 2, 0), {}, id="commas"),
        pytest.param("[2]\n[3]\n[1]", (1, 2, 0), {}, id="lines"),
        pytest.param("I think [1] is weak, so: [2] > [3] > [1]. Hope it helps!", (1, 2, 0), {}, id="prose around it"),
        pytest.param("First [1] > [2] > [3]; no, [3] > [2] > [1]", (2, 1, 0), {}, id="the last list counts"),
        pytest.param("[3] > [2] > [1]\nbecause [1] is off topic", (2, 1, 0), {}, id="an id after the list"),
        pytest.param("[2] > [1]", (1, 0, 2), {"id missing": 1}, id="missing ids follow as shown"),
        pytest.param("[3]", (2, 0, 1), {"id missing": 2}, id="one id leads"),
        pytest.param("[2] > [2] > [1] > [3]", (1, 0, 2), {"id repeated": 1}, id="the first place counts"),
        pytest.param("[9] > [2] > [0] > [1] > [3]", (1, 0, 2), {"id out of range": 2}, id="ids never shown"),
        pytest.param(
            "[9] > [2] > [2]", (1, 0, 2), {"id out of range": 1, "id repeated": 1, "id missing": 2}, id="all"
        ),
        pytest.param(
            "The patient is 56 years old, HbA1c 7.2", (0, 1, 2), {"no list": 1}, id="numbers that are no list"
        ),
        pytest.param("", (0, 1, 2), {"no list": 1}, id="empty"),
    ],
)
def test_an_order_is_read_and_repaired_by_the_stated_rules(
    answer: str, positions: tuple[int, ...], repairs: dict[str, int]
) -> None:
    reordering = read_permutation(answer, 3)

    assert reordering.positions == positions
    assert reordering.repairs == Counter(repairs)


@given(answer=st.text(alphabet="[]0123456789> ,.;:\nab", max_size=60), shown=st.integers(0, 12))
def test_whatever_is_answered_every_document_stays_once(answer: str, shown: int) -> None:
    assert sorted(read_permutation(answer, shown).positions) == list(range(shown))


@pytest.mark.parametrize(
    ("answer", "values", "repairs"),
    [
        pytest.param("[1]: 7\n[2]: 0\n[3]: 10", (7, 0, 10), {}, id="as asked for"),
        pytest.param("[2]: 3.5 because of the rash, [1]: 2, [3]: 1", (2, 3.5, 1), {}, id="any order"),
        pytest.param("[1]: 4\n...on reflection [1]: 8\n[2]: 1\n[3]: 1", (8, 1, 1), {}, id="the last grade counts"),
        pytest.param("[1]: 11\n[2]: -2\n[3]: 5", (10, 0, 5), {"grade out of scale": 2}, id="cut to the scale"),
        pytest.param("[1]: 5\n[4]: 9", (5, None, None), {"id out of range": 1, "id missing": 2}, id="missing"),
        pytest.param("none of them", (None, None, None), {"no list": 1}, id="nothing"),
    ],
)
def test_grades_are_read_by_id(answer: str, values: tuple[float | None, ...], repairs: dict[str, int]) -> None:
    grades = read_grades(answer, 3, best=10)

    assert grades.values == values
    assert grades.repairs == Counter(repairs)
