"""Orders are read out of answers as models write them, ties included, and repaired by the stated rules."""

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.reranking.permutations import read_permutation


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
        pytest.param("[Passage 2] > [1] > [3]", (1, 0, 2), {}, id="a label in a bracket"),
        pytest.param("[Doc 2] > [Doc 1]", (1, 0, 2), {"id missing": 1}, id="labels in brackets"),
        pytest.param("[doc_2] > [ID: 3] > [Document #1]", (1, 2, 0), {}, id="labels with signs"),
        pytest.param("[Doc 2 > Doc 3, Doc 1]", (1, 2, 0), {}, id="labels in one bracket"),
        pytest.param("Passage 2 > Passage 3 > Passage 1", (1, 2, 0), {}, id="labels without brackets"),
        pytest.param("1. Document 2\n2. Document 1", (1, 0, 2), {"id missing": 1}, id="rank, label, id"),
        pytest.param("**1) Passage 2**\n\n**2) Passage 3**\n", (1, 2, 0), {"id missing": 1}, id="rank in emphasis"),
        pytest.param("1. Document 2\n3. Document 1", (0, 1, 2), {"no list": 1}, id="ranks with a gap"),
        pytest.param("1. Document 2\nDocument 1 fails", (0, 1, 2), {"no list": 1}, id="a line of another shape"),
        pytest.param("1. Document 7\n2. Document 8", (0, 1, 2), {"no list": 1}, id="lines of nothing shown"),
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

    assert reordering.levels == tuple((position,) for position in positions)
    assert reordering.repairs == Counter(repairs)


@pytest.mark.parametrize(
    ("answer", "levels", "repairs"),
    [
        pytest.param("[3] = [1] > [2]", ((2, 0), (1,)), {}, id="Rank-K, the best are tied"),
        pytest.param("[3] > [2] = [1]", ((2,), (1, 0)), {}, id="Rank-K, the worst are tied"),
        pytest.param("[3] = [1] = [2]", ((2, 0, 1),), {}, id="all are tied"),
        pytest.param("3 = 1 > 2", ((2, 0), (1,)), {}, id="without brackets"),
        pytest.param("[3 = 1 > 2]", ((2, 0), (1,)), {}, id="one bracket"),
        pytest.param("[3]=[1]>[2]", ((2, 0), (1,)), {}, id="without spaces"),
        pytest.param("[3] >= [1] > [2]", ((2,), (0,), (1,)), {}, id="not below is above"),
        pytest.param("[3]≥[1]⩾[2]", ((2,), (0,), (1,)), {}, id="not below is above, in one sign"),
        pytest.param("3 ≥ 1 > 2", ((2,), (0,), (1,)), {}, id="not below is above, without brackets"),
        pytest.param("[3] ≈ [1] > [2]", ((2, 0), (1,)), {}, id="about equal is tied"),
        pytest.param("[3]～[1] ≃ [2]", ((2, 0, 1),), {}, id="other signs for about equal"),
        pytest.param("[3] ~ [1] > [2]", ((2, 0), (1,)), {}, id="a tilde between ids is a tie"),
        pytest.param("3~1 > 2", ((2, 0), (1,)), {}, id="a tilde without brackets"),
        pytest.param("~~[2]~~ [3] > ~~[1]~~ [1]", ((1,), (2,), (0,)), {"id repeated": 1}, id="struck out"),
        pytest.param("[Doc 3] = [Doc 1] > [Doc 2]", ((2, 0), (1,)), {}, id="ties with labels"),
        pytest.param("[1]: ~7\n[2]: 9", ((1,), (0,), (2,)), {"id missing": 1}, id="about a grade"),
        pytest.param("[3] = [1]", ((2, 0), (1,)), {"id missing": 1}, id="a missing id is tied with none"),
        pytest.param(
            "[3] = [9] > [1] = [3]",
            ((2,), (0,), (1,)),
            {"id out of range": 1, "id repeated": 1, "id missing": 1},
            id="repairs within ties",
        ),
        pytest.param("【3】＝【1】＞【2】", ((2, 0), (1,)), {}, id="full-width signs"),
        pytest.param("［3］ > ［１］ > ［2］", ((2,), (0,), (1,)), {}, id="full-width brackets and digits"),
        pytest.param("〔3〕、〔1〕，〔2〕", ((2,), (0,), (1,)), {}, id="full-width commas"),
        pytest.param('["3", "1", "2"]', ((2,), (0,), (1,)), {}, id="JSON, texts"),
        pytest.param('["[3]", "[1]", "[2]"]', ((2,), (0,), (1,)), {}, id="JSON, texts with brackets"),
        pytest.param('```json\n[\n  "3",\n  "1",\n  "2"\n]\n```', ((2,), (0,), (1,)), {}, id="JSON in a code fence"),
        pytest.param('{"ranking": [3, 1, 2]}', ((2,), (0,), (1,)), {}, id="JSON under a key"),
        pytest.param("“[3]” > “[1]” > “[2]”", ((2,), (0,), (1,)), {}, id="typographic quotes"),
        pytest.param(
            "<think>[1] > [2] > [3]?</think>\n<answer>[3] > [1]</answer>",
            ((2,), (0,), (1,)),
            {"id missing": 1},
            id="ReasonRank, the answer counts although the thoughts hold more ids",
        ),
        pytest.param(
            "<answer>see below</answer> [3] > [1] > [2]", ((2,), (0,), (1,)), {}, id="answer tags without a list"
        ),
        pytest.param("<answer>[3] > [1] > [2]", ((2,), (0,), (1,)), {}, id="an answer tag that stays open"),
        pytest.param('{"[1]": 2, "[2]": 9, "[3]": 2}', ((1,), (0, 2)), {}, id="grades in place of an order"),
        pytest.param('```json\n{"1": 2, "2": 9, "3": 5}\n```', ((1,), (2,), (0,)), {}, id="grades in a code fence"),
        pytest.param(
            "Doc: 2, Relevance: 9\nDoc: 3, Relevance: 4", ((1,), (2,), (0,)), {"id missing": 1}, id="LlamaIndex"
        ),
        pytest.param('{"1": "[3]", "2": "[1]", "3": "[2]"}', ((2,), (0,), (1,)), {}, id="JSON, ids by rank"),
        pytest.param("1: [3]\n2: [1]\n3: [2]", ((2,), (0,), (1,)), {}, id="lines, ids by rank"),
        pytest.param("[3]: 1st, [1]: 2nd, [2]: 3rd", ((2,), (0,), (1,)), {}, id="places are no grades"),
        pytest.param(
            "<think>[2] > [1]</think><answer>[3]</answer>", ((2,), (0,), (1,)), {"id missing": 2}, id="Rank-R1"
        ),
        pytest.param("[1]: 2\n[2]: 3\n[3]: 1", ((0,), (1,), (2,)), {"no list": 1}, id="grades that may be ranks"),
        pytest.param("[2]: 9, then [3]", ((1,), (2,), (0,)), {"id missing": 1}, id="not every id has a grade"),
        pytest.param("1 = 7\n3 = 9\n", ((2,), (0,), (1,)), {"id missing": 1}, id="equations are grades"),
        pytest.param("x = 1 = 2", ((0,), (1,), (2,)), {"no list": 1}, id="an equation is no order"),
    ],
)
def test_ties_and_other_ways_of_writing_are_read_as_they_are_meant(
    answer: str, levels: tuple[tuple[int, ...], ...], repairs: dict[str, int]
) -> None:
    reordering = read_permutation(answer, 3)

    assert reordering.levels == levels
    assert reordering.repairs == Counter(repairs)


@pytest.mark.parametrize(
    ("answer", "levels"),
    [
        ("[2]>[1]≥[3]>[4]", ((1,), (0,), (2,), (3,))),
        ("[3] ≈ [1] > [2] > [4]", ((2, 0), (1,), (3,))),
    ],
)
def test_no_part_of_an_order_is_lost_at_a_sign(answer: str, levels: tuple[tuple[int, ...], ...]) -> None:
    reordering = read_permutation(answer, 4)

    assert reordering.levels == levels
    assert not reordering.repairs


@given(
    answer=st.text() | st.text(alphabet='[]{}【】0123456789>= ,.;:*"\n-ab', max_size=60),
    shown=st.integers(0, 12),
)
def test_whatever_is_answered_every_document_stays_once(answer: str, shown: int) -> None:
    assert sorted(chain(*read_permutation(answer, shown).levels)) == list(range(shown))


PROSE = st.text(alphabet=st.characters(exclude_characters="[]［］【】〔〕"), max_size=40)


@given(order=st.integers(2, 20).flatmap(lambda shown: st.permutations(range(shown))), before=PROSE, after=PROSE)
def test_an_order_as_asked_for_is_read_exactly_whatever_prose_is_around_it(
    order: list[int], before: str, after: str
) -> None:
    answer = before + " > ".join(f"[{position + 1}]" for position in order) + after

    reordering = read_permutation(answer, len(order))

    assert reordering.levels == tuple((position,) for position in order)
    assert not reordering.repairs
