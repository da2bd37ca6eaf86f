import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.reranking.numbers import read_number


@pytest.mark.parametrize(
    ("answer", "best", "number"),
    [
        # Retro* and BGE-Reasoner-Reranker
        ("1. The query asks ... 3 steps.\n<score>85</score>", 100, (85.0, True)),
        ("<score>\n85\n</score>", 100, (85.0, True)),
        ("I thought <score>20</score>, but <score>40</score>", 100, (40.0, True)),
        ("<score>[70]</score>", 100, (70.0, True)),
        # DIVER's pointwise reranker
        ("Relevance score: 7", 10, (7.0, True)),
        (" 7", 10, (7.0, True)),
        ("7/10", 10, (7.0, True)),
        ("**Relevance score:** 7.5", 10, (7.5, True)),
        # one document with an id, as RankLLM's template for GroupRank asks
        ('{"[1]": 5}', 10, (5.0, True)),
        ('```json\n{"score": 6}\n```', 10, (6.0, True)),
        ("Score: 120", 100, (100.0, False)),
        ("Score: -3", 100, (0.0, False)),
        ("no number", 10, None),
        ("Step 3 of 5", 10, None),
        ("", 10, None),
    ],
)
def test_the_number_of_an_answer_is_read(answer: str, best: float, number: tuple[float, bool] | None) -> None:
    assert read_number(answer, best=best) == number


@given(st.text() | st.from_regex(r"(score|[\[\]{}: \d.<>])*", fullmatch=True))
def test_any_text_gives_a_number_on_the_scale_or_none(answer: str) -> None:
    found = read_number(answer, best=10)

    assert found is None or 0 <= found[0] <= 10
