"""The one order: score as float32 descending, then doc id by code point descending, as in trec_eval."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.errors import DataError
from r2med_ray.ranking import best, best_of_scores, merge, require_finite
from r2med_ray.types import ScoredDoc

HITS = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), st.sampled_from([0.0, 0.5, 1.0])
    ),
    unique_by=lambda hit: hit[0],
    max_size=30,
)


def reciprocal_rank(scores: dict[str, float], positive: str) -> float:
    """Return the reciprocal of the rank that trec_eval gives the positive."""
    evaluator = pytrec_eval.RelevanceEvaluator({"q": {positive: 1}}, {"recip_rank"})
    return float(evaluator.evaluate({"q": scores})["q"]["recip_rank"])


@pytest.mark.parametrize(
    ("scores", "first"),
    [
        pytest.param({"a": 1.0, "b": 1.0}, "b", id="equal-scores"),
        # 1 + 1e-9 is 1 as float32, so the scores tie: neighbouring float32 values near 1 differ by 1.2e-7.
        pytest.param({"a": 1.000000001, "b": 1.0}, "b", id="equal-as-float32"),
        pytest.param({"10": 1.0, "9": 1.0}, "9", id="ids-are-text"),
        pytest.param({"a": 1.0, "B": 1.0}, "a", id="lower-case-after-upper"),
        pytest.param({"é": 1.0, "z": 1.0}, "é", id="beyond-ascii"),
    ],
)
def test_mt03_the_order_is_that_of_trec_eval(scores: dict[str, float], first: str) -> None:
    ranking = best((ScoredDoc(*hit) for hit in scores.items()), 10)

    assert ranking[0].doc_id == first
    assert reciprocal_rank(scores, first) == 1.0


@given(hits=HITS, num_shards=st.integers(1, 5), k=st.integers(1, 10))
def test_sharding_never_changes_the_ranking(hits: list[tuple[str, float]], num_shards: int, k: int) -> None:
    scored = [ScoredDoc(*hit) for hit in hits]
    shards = [best(scored[start::num_shards], k) for start in range(num_shards)]

    assert merge(shards, k) == best(scored, k)


@given(hits=HITS, k=st.integers(1, 10))
def test_cutting_scores_of_a_whole_shard_keeps_every_tie_that_belongs(hits: list[tuple[str, float]], k: int) -> None:
    scores_N = np.array([score for _, score in hits], np.float32)

    assert best_of_scores(scores_N, [doc_id for doc_id, _ in hits], k) == best((ScoredDoc(*hit) for hit in hits), k)


def test_minus_infinity_marks_a_document_that_is_no_hit() -> None:
    scores_N = np.array([0.5, -np.inf, 0.7], np.float32)

    assert [hit.doc_id for hit in best_of_scores(scores_N, ["a", "b", "c"], 3)] == ["c", "a"]


def test_scores_come_back_as_they_were_compared() -> None:
    assert best([ScoredDoc("d", 0.1)], 1) == (ScoredDoc("d", float(np.float32(0.1))),)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_mt05_a_score_that_is_not_finite_is_refused_by_name(score: float) -> None:
    with pytest.raises(DataError, match=r"search: query 'q7', document 'd2' has score"):
        require_finite([ScoredDoc("d1", 0.5), ScoredDoc("d2", score)], stage="search", query_id="q7")
