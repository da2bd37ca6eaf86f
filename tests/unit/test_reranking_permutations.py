from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.reranking.permutations import read_grades, read_permutation


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
        pytest.param("**[2]** > **[3]** > **[1]**", (1, 2, 0), {}, id="emphasis"),
        pytest.param(r"\[2\] \> \[3\] \> \[1\]", (1, 2, 0), {}, id="escapes"),
        pytest.param("1. [2]\n2. [3]\n3. [1]", (1, 2, 0), {}, id="numbered lines"),
        pytest.param("- [2]\n- [3]\n- [1]", (1, 2, 0), {}, id="dashed lines"),
        pytest.param("1. [2] is best, see [2]\n2. [3]\n3. [1]", (1, 2, 0), {}, id="numbered lines with prose"),
        pytest.param(
            "[2] is the best…; then [3], and [1] is of no use", (1, 2, 0), {}, id="lone ids, the first mention counts"
        ),
        pytest.param("[3] is best, see [12]", (2, 0, 1), {"id missing": 2}, id="a lone number that was not shown"),
        pytest.param(
            "[2] > [3] > [1]\nReason: Passages [1], [3] do not.", (1, 2, 0), {}, id="a shorter list after the list"
        ),
        pytest.param(
            "[3] > [2]\nThe others: [1], [2], [3].", (2, 1, 0), {"id missing": 1}, id="an order before a longer list"
        ),
        pytest.param(
            "[2], [3]; see also [1], [7], [8]", (1, 2, 0), {"id missing": 1}, id="shown ids make a list long"
        ),
        pytest.param(
            "[2], [3], [1]: passages [1], [3] fail", (1, 2, 0), {}, id="the longest list of those with commas"
        ),
        pytest.param("[2,3,1]", (1, 2, 0), {}, id="one bracket"),
        pytest.param("Answer: [2 > 3], [1]", (1, 2, 0), {}, id="some in one bracket"),
        pytest.param("2, 3, 1", (1, 2, 0), {}, id="bare with commas"),
        pytest.param("By use:\n 2, 3, 1. \nDone at 10, 20 and 30", (1, 2, 0), {}, id="bare on a line of its own"),
        pytest.param("**Order:** 2, 3, 1", (1, 2, 0), {}, id="bare after a label"),
        pytest.param("* 2\n* 3\n* 1", (1, 2, 0), {}, id="bare with stars"),
        pytest.param("The order is 2 > 3 > 1.", (1, 2, 0), {}, id="bare in a sentence"),
        pytest.param("2 > 3 > 1 (after Lee [2020])", (1, 2, 0), {}, id="a bracket that is no id"),
        pytest.param("In 1, 2 or 3 years", (0, 1, 2), {"no list": 1}, id="numbers with commas in a sentence"),
        pytest.param("1. none\n2. none\n3. none", (0, 1, 2), {"no list": 1}, id="numbers of lines"),
        pytest.param("[4] > [5]", (0, 1, 2), {"no list": 1}, id="nothing that was shown"),
        pytest.param("[" + "1" * 5000 + "]", (0, 1, 2), {"no list": 1}, id="a digit without end"),
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


@given(
    answer=st.text() | st.text(alphabet="[]0123456789> ,.;:*\n-ab", max_size=60),
    shown=st.integers(0, 12),
)
def test_whatever_is_answered_every_document_stays_once(answer: str, shown: int) -> None:
    assert sorted(read_permutation(answer, shown).positions) == list(range(shown))


PROSE = st.text(alphabet=st.characters(exclude_characters="[]"), max_size=40)


@given(order=st.integers(2, 20).flatmap(lambda shown: st.permutations(range(shown))), before=PROSE, after=PROSE)
def test_an_order_as_asked_for_is_read_exactly_whatever_prose_is_around_it(
    order: list[int], before: str, after: str
) -> None:
    answer = before + " > ".join(f"[{position + 1}]" for position in order) + after

    reordering = read_permutation(answer, len(order))

    assert reordering.positions == tuple(order)
    assert not reordering.repairs


@pytest.mark.parametrize(
    ("answer", "values", "repairs"),
    [
        pytest.param("[1]: 7\n[2]: 0\n[3]: 10", (7, 0, 10), {}, id="as asked for"),
        pytest.param("[2]: 3.5 because of the rash, [1]: 2, [3]: 1", (2, 3.5, 1), {}, id="any order"),
        pytest.param("[1]: 4\n...on reflection [1]: 8\n[2]: 1\n[3]: 1", (8, 1, 1), {}, id="the last grade counts"),
        pytest.param("**[3]:** 8\n**[1]**: **2**\n[2]: *5*", (2, 5, 8), {}, id="emphasis"),
        pytest.param("[2] - 5\n[1] – 4\n[3] — 3", (4, 5, 3), {}, id="dashes"),
        pytest.param("[1] = 7, [2]=2, [3] : 0", (7, 2, 0), {}, id="other signs"),
        pytest.param("Passage [1]: 7/10\nPassage [2]: 10/10\nPassage [3]: 0/10", (7, 10, 0), {}, id="of ten"),
        pytest.param("[1]: grade 7\n[2]: Grade: 2\n[3] - grade=1", (7, 2, 1), {}, id="the word"),
        pytest.param("[1]-[3], or [1]-3, are poor: 2", (None, None, None), {"no list": 1}, id="a range of ids"),
        pytest.param("[1]: 11\n[2]: -2\n[3]: 5", (10, 0, 5), {"grade out of scale": 2}, id="cut to the scale"),
        pytest.param("[1]: 5\n[4]: 9", (5, None, None), {"id out of range": 1, "id missing": 2}, id="missing"),
        pytest.param("none of them", (None, None, None), {"no list": 1}, id="nothing"),
    ],
)
def test_grades_are_read_by_id(answer: str, values: tuple[float | None, ...], repairs: dict[str, int]) -> None:
    grades = read_grades(answer, 3, best=10)

    assert grades.values == values
    assert grades.repairs == Counter(repairs)
