"""Grades are read out of answers as models write them, and repaired by the stated rules."""

from collections import Counter

import pytest

from r2med_ray.reranking.grades import read_grades


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
        pytest.param('{"[1]": 2, "[2]": 9, "[3]": 4}', (2, 9, 4), {}, id="GroupRank"),
        pytest.param('```json\n{"[1]": 2, "[2]": 9, "[3]": 4}\n```', (2, 9, 4), {}, id="GroupRank in a code fence"),
        pytest.param(
            '<reason>[1]: 3 signs match.</reason><answer>```json\n{"[2]": 9, "[3]": 4}\n```</answer>',
            (None, 9, 4),
            {"id missing": 1},
            id="GroupRank, reasons are no grades",
        ),
        pytest.param('{"[1]]": 2, "[2]": 9, "[3]": 4', (2, 9, 4), {}, id="GroupRank, broken JSON"),
        pytest.param('{"1": 2, "2": 9, "3": 4}', (2, 9, 4), {}, id="ids as texts"),
        pytest.param("{1: 2, 2: 9, 3: 4}", (2, 9, 4), {}, id="ids as numbers"),
        pytest.param('{"[1]": "2", "[2]": "9", "[3]": "4"}', (2, 9, 4), {}, id="grades as texts"),
        pytest.param(
            '[{"id": 1, "score": 2}, {"id": 2, "score": 9}, {"id": 3, "score": 4}]', (2, 9, 4), {}, id="rows"
        ),
        pytest.param(
            '[{"doc_id": 2, "relevance_score": 9}]', (None, 9, None), {"id missing": 2}, id="rows, other keys"
        ),
        pytest.param(
            '{"[2]": {"score": 9}, "[1]": {"score": 2}, "[3]": {"score": 4}}', (2, 9, 4), {}, id="JSON in JSON"
        ),
        pytest.param("Doc: 2, Relevance: 9\nDoc: 3, Relevance: 4", (None, 9, 4), {"id missing": 1}, id="LlamaIndex"),
        pytest.param("Passage 1: 2\nPassage 2: 9\nPassage 3: 4", (2, 9, 4), {}, id="labels"),
        pytest.param("[1] (score: 2)\n[2], relevance 9\n[3] Rating: 4", (2, 9, 4), {}, id="words without a sign"),
        pytest.param("| [1] | 2 |\n| [2] | 9 |\n| [3] | 4 |", (2, 9, 4), {}, id="a table"),
        pytest.param("【1】：2\n［2］：9\n〔3〕＝4", (2, 9, 4), {}, id="full-width signs"),
        pytest.param("1: 2\n2: 9/10\n3: 4", (2, 9, 4), {}, id="lines of bare ids"),
        pytest.param("2: 9 of the signs match", (None, None, None), {"no list": 1}, id="a bare id in prose"),
        pytest.param("[1]: 2\nIn passage 2: 9 signs\n[3]: 4", (2, None, 4), {"id missing": 1}, id="brackets first"),
        pytest.param("[9]: 4", (None, None, None), {"no list": 1}, id="nothing that was shown"),
    ],
)
def test_grades_are_read_by_id(answer: str, values: tuple[float | None, ...], repairs: dict[str, int]) -> None:
    grades = read_grades(answer, 3, best=10)

    assert grades.values == values
    assert grades.repairs == Counter(repairs)
