"""Rows have the order of `ranking`, which is trec_eval's order."""

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.errors import DataError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.ranked import rows_of_run
from r2med_ray.ranking import best
from r2med_ray.types import Run, ScoredDoc


def run_of(**rankings):
    return Run(
        tag="t",
        rankings={query: tuple(ScoredDoc(*hit) for hit in hits.items()) for query, hits in rankings.items()},
    )


@pytest.mark.parametrize(
    ("scores", "reciprocal_rank"),
    [
        # the second id of a pair ranks first if it is the larger one
        pytest.param({"a": 1.0, "b": 1.0}, 0.5, id="equal"),
        pytest.param({"a": 1.000000001, "b": 1.0}, 0.5, id="equal-as-float32"),
        pytest.param({"10": 1.0, "9": 1.0}, 0.5, id="digits-are-text"),
        pytest.param({"a": 1.0, "B": 1.0}, 1.0, id="case"),
        pytest.param({"é": 1.0, "z": 1.0}, 1.0, id="not-ascii"),
        pytest.param({"a": 0.0, "b": -0.0}, 0.5, id="minus-zero"),
    ],
)
def test_mt03_ties_are_broken_as_in_trec_eval(scores, reciprocal_rank):
    positive = next(iter(scores))
    theirs = pytrec_eval.RelevanceEvaluator({"q": {positive: 1}}, {"recip_rank"}).evaluate({"q": scores})

    ours = evaluate(run_of(q=scores), {"q": {positive: 1}}, [Measure("RR")])

    assert ours.means["RR"] == theirs["q"]["recip_rank"] == reciprocal_rank


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.sampled_from("pqr"),
        st.dictionaries(
            st.text(st.characters(codec="utf-8"), max_size=3),
            st.sampled_from([-2.0, -1e-9, -0.0, 0.0, 0.1, 0.1000000001, 7.0, 1e30]),
            max_size=8,
        ),
    )
)
def test_rows_are_in_the_order_of_ranking(rankings):
    run = run_of(**rankings)

    assert next(rows_of_run(run)).to_rankings() == {
        query_id: best(hits, len(hits)) for query_id, hits in run.rankings.items() if hits
    }


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf"), 1e39])
def test_mt05_a_score_that_is_not_finite_is_refused_with_stage_query_and_document(score):
    with pytest.raises(DataError, match=r"evaluate: run 't', query 'q2', document 'd1' has score (nan|-?inf)"):
        list(rows_of_run(run_of(q1={"d0": 1.0}, q2={"d0": 1.0, "d1": score})))


def test_a_document_that_is_ranked_twice_is_refused():
    run = Run(tag="t", rankings={"p": (ScoredDoc("d", 2.0),), "q": (ScoredDoc("d", 2.0), ScoredDoc("d", 1.0))})

    with pytest.raises(DataError, match=r"query 'q', document 'd' is ranked twice"):
        list(rows_of_run(run))


def test_mt17_the_order_in_which_documents_are_given_does_not_matter():
    qrels = {"q": {"a": 1}}
    ascending = evaluate(run_of(q={"c": -3.0, "b": -2.0, "a": -1.0}), qrels, [Measure("RR")])
    descending = evaluate(run_of(q={"a": -1.0, "b": -2.0, "c": -3.0}), qrels, [Measure("RR")])

    # negative scores are ordered like other scores: a is first
    assert ascending.means == descending.means == {"RR": 1.0}
