"""Measures against values worked out by hand, and against trec_eval."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.types import Run, ScoredDoc

TREC_EVAL_NAMES = {
    "nDCG@10": "ndcg_cut_10", "nDCG@3": "ndcg_cut_3", "nDCG": "ndcg", "AP": "map", "AP@3": "map_cut_3",
    "R@2": "recall_2", "R@100": "recall_100", "P@5": "P_5", "RR": "recip_rank", "Success@2": "success_2",
}  # fmt: skip


def run_of(*doc_ids):
    return Run(tag="t", rankings={"q": tuple(ScoredDoc(doc_id, -float(i)) for i, doc_id in enumerate(doc_ids))})


def value(measure, ranking, judged):
    return evaluate(run_of(*ranking), {"q": judged}, [Measure.parse(measure)]).means[measure]


@pytest.mark.parametrize("text", ["nDCG@10", "nDCG", "AP", "AP@100", "R@7", "P@10", "RR", "RR@10", "Success@1"])
def test_a_measure_prints_as_what_it_was_read_from(text):
    assert str(Measure.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndcg@10", "Did you mean 'nDCG@10'?"),
        ("ndcg_at_10", "Did you mean 'nDCG@10'?"),
        ("NDCG@5", "Did you mean 'nDCG@5'?"),
        ("MAP@100", "Did you mean 'AP@100'?"),
        ("mrr", "Did you mean 'RR'?"),
        ("recall@50", "Did you mean 'R@50'?"),
        ("recall", "Did you mean 'R@10'?"),
        ("Sucess@10", "Did you mean 'Success@10'?"),
        ("precison@5", "Did you mean 'P@5'?"),
        ("nDCG10", "Did you mean 'nDCG@10'?"),
        ("hitrate@3", "Did you mean 'Success@3'?"),
        ("R", "needs a cut-off, e.g. 'R@10'"),
        ("P@0", "must be at least 1"),
        ("R@-1", "Known: nDCG, nDCG@K"),
    ],
)
def test_an_unknown_measure_is_refused_with_the_nearest_one(text, message):
    with pytest.raises(ConfigError, match=r".") as caught:
        Measure.parse(text)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("measure", "ranking", "judged", "expected"),
    [
        # DCG = 1/log2(2) + 0 + 1/log2(4) = 1.5; ideal = 1/log2(2) + 1/log2(3) = 1.6309298
        pytest.param("nDCG@10", "a x b", {"a": 1, "b": 1}, 1.5 / 1.6309298, id="gap-at-rank-2"),
        # linear gain: DCG = 1 + 2/1.5849625 = 2.2618595; ideal = 2 + 1/1.5849625 = 2.6309298
        pytest.param("nDCG@10", "a b", {"a": 1, "b": 2}, 2.2618595 / 2.6309298, id="graded-in-wrong-order"),
        # the ideal list holds the positive that is not ranked too: 1 / 1.6309298
        pytest.param("nDCG", "a x", {"a": 1, "missing": 1}, 1 / 1.6309298, id="positive-that-is-not-found"),
        # the ideal list is cut as well: 1 / 1
        pytest.param("nDCG@1", "a b", {"a": 1, "b": 1}, 1.0, id="ideal-is-cut"),
        # precision 1/1 at a, 2/3 at b, 0 for c; divided by all 3 positives
        pytest.param("AP", "a x b", {"a": 1, "b": 1, "c": 1}, (1 + 2 / 3) / 3, id="average-precision"),
        # b is below the cut, and it still divides by both positives
        pytest.param("AP@2", "a x b", {"a": 1, "b": 1}, 1 / 2, id="average-precision-cut"),
        pytest.param("R@2", "a x b", {"a": 1, "b": 2}, 1 / 2, id="recall"),
        # divides by k, although only three are ranked
        pytest.param("P@10", "a x b", {"a": 1, "b": 1}, 2 / 10, id="precision"),
        pytest.param("RR", "x y a b", {"a": 1, "b": 1}, 1 / 3, id="reciprocal-rank"),
        pytest.param("RR@2", "x y a", {"a": 1}, 0.0, id="reciprocal-rank-cut"),
        pytest.param("RR@3", "x y a", {"a": 1}, 1 / 3, id="reciprocal-rank-at-the-cut"),
        pytest.param("Success@2", "x a", {"a": 1}, 1.0, id="success"),
        pytest.param("Success@1", "x a", {"a": 1}, 0.0, id="no-success"),
        pytest.param("nDCG@10", "x y", {"a": 1}, 0.0, id="nothing-found"),
    ],
)
def test_values_worked_out_by_hand(measure, ranking, judged, expected):
    assert value(measure, ranking.split(), judged) == pytest.approx(expected, abs=1e-7)


def test_mt15_recall_divides_by_all_positives_and_not_by_k():
    positives = {f"d{i}": 1 for i in range(20)}

    # 10 of 20
    assert value("R@10", [f"d{i}" for i in range(10)], positives) == 0.5


@pytest.mark.parametrize("grade", [0, -1, -5])
def test_mt17_a_grade_of_0_or_below_is_a_gain_of_0(grade):
    # only a counts: 1/log2(3); no minus for n
    assert value("nDCG@10", ["n", "a"], {"a": 1, "n": grade}) == pytest.approx(1 / np.log2(3))
    assert value("P@1", ["n", "a"], {"a": 1, "n": grade}) == 0.0


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_every_query_equals_trec_eval_on_random_runs_with_ties(data):
    doc_ids = ["a", "B", "b", "9", "10", "é", "z", "𝒛", "d/1", "d#2"]
    scores = st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, 1.000000001, 1e-42, 3e38])
    rankings = st.dictionaries(st.sampled_from(doc_ids), scores, max_size=10)
    judgements = st.dictionaries(st.sampled_from([*doc_ids, "unranked"]), st.integers(-1, 3), min_size=1)
    run = data.draw(st.dictionaries(st.sampled_from("pqrs"), rankings, min_size=1))
    qrels = data.draw(st.dictionaries(st.sampled_from("pqrs"), judgements, min_size=1))
    has_positive = any(grade > 0 for grades in qrels.values() for grade in grades.values())
    if not has_positive or run.keys().isdisjoint(qrels):
        return

    theirs = pytrec_eval.RelevanceEvaluator(
        qrels, {"ndcg_cut.3,10", "ndcg", "map", "map_cut.3", "recall.2,100", "P.5", "recip_rank", "success.2"}
    ).evaluate(run)
    rankings = {q: tuple(ScoredDoc(doc_id, score) for doc_id, score in hits.items()) for q, hits in run.items()}
    ours = evaluate(Run(tag="t", rankings=rankings), qrels, [Measure.parse(name) for name in TREC_EVAL_NAMES])

    for query_id, values in theirs.items():
        for name, trec_eval_name in TREC_EVAL_NAMES.items():
            assert ours.per_query[query_id][name] == pytest.approx(values[trec_eval_name], abs=1e-9)
