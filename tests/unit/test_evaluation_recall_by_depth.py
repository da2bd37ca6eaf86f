"""Recall by depth, worked out by hand."""

from r2med_ray.evaluation.recall_by_depth import recall_by_depth
from tests.unit.reporting_records import run


def test_recall_by_depth_is_a_mean_over_the_queries_that_have_a_positive():
    ranked = run("x", q1="d1 x d2", q3="x")
    qrels = {"q1": {"d1": 1, "d2": 2}, "q2": {"d3": 1}, "q3": {"x": 0}}

    # q1 has 1 of 2 after one document and 2 of 2 after three; q2 isn't answered; q3 has no positive and doesn't count
    assert recall_by_depth(ranked, qrels, depth=4) == {1: 0.25, 2: 0.25, 3: 0.5, 4: 0.5}


def test_without_a_positive_there_is_no_recall():
    assert recall_by_depth(run("x", q1="d1"), {"q1": {"d1": 0}}, depth=10) == {}
