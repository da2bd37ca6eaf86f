"""How far a figure depends on the order of equal texts with equal scores."""

from itertools import permutations, product

import numpy as np
import pytest

from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure, parse_measures
from r2med_ray.evaluation.text_ties import TieRange, tie_ranges
from r2med_ray.types import Run, ScoredDoc

MEASURES = parse_measures("nDCG@3,nDCG,AP,RR,R@2,P@3,Success@1,RBP(p=0.5)")


def ranges(rankings, qrels, same_texts, measures=MEASURES, depth=100, **options):
    """Rank documents with their scores, written as `a=2 b=1`."""
    run = Run(
        tag="t",
        rankings={
            query_id: tuple(ScoredDoc(name, float(score)) for name, score in (hit.split("=") for hit in hits.split()))
            for query_id, hits in rankings.items()
        },
    )
    evaluation = evaluate(run, qrels, measures)
    return tie_ranges(run, qrels, same_texts, measures, evaluation, depth=depth, **options), evaluation


def test_the_range_is_that_of_all_orders():
    # Texts: a, c and e are one, b and d another; x and y are texts of their own. Scores tie within a text and across.
    groups = [("a", "c", "e"), ("b", "d")]
    ranking, scores = ["x", "e", "c", "a", "y", "d", "b"], [9, 5, 5, 5, 4, 3, 3]
    qrels = {"q": {"a": 2, "c": 0, "e": -1, "b": 1, "y": 1, "z": 1}}
    found, _ = ranges({"q": " ".join(f"{d}={s}" for d, s in zip(ranking, scores, strict=True))}, qrels, groups)

    values = {str(measure): [] for measure in MEASURES}
    for first, second in product(permutations("ace"), permutations("bd")):
        order = ["x", *first, "y", *second]
        run = Run(tag="t", rankings={"q": tuple(ScoredDoc(doc_id, -float(i)) for i, doc_id in enumerate(order))})
        for name, value in evaluate(run, qrels, MEASURES).means.items():
            values[name].append(value)
    expected = {
        name: TieRange(num_queries=1, least=pytest.approx(min(of_name)), greatest=pytest.approx(max(of_name)))
        for name, of_name in values.items()
        if max(of_name) > min(of_name)
    }
    assert found == expected
    assert set(found) == {str(measure) for measure in MEASURES} - {"Success@1"}  # x is first in all orders


def test_the_mean_is_over_all_queries_and_those_that_depend_are_counted():
    qrels = {"q1": {"a": 1}, "q2": {"x": 1}, "q3": {"a": 1}}
    # q1: a is second of two that tie, so RR is 1/2 or 1. q2: no tie. q3: not answered.
    found, evaluation = ranges({"q1": "b=1 a=1", "q2": "x=1"}, qrels, [("a", "b")], [Measure("RR")])

    assert evaluation.means["RR"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert found == {"RR": TieRange(num_queries=1, least=pytest.approx(0.5), greatest=pytest.approx(2 / 3))}


@pytest.mark.parametrize(
    ("hits", "grades"),
    [("b=2 a=1", {"a": 1}), ("b=1 a=1", {"a": 1, "b": 1}), ("b=1 x=1", {"x": 1})],
    ids=["other scores", "both relevant", "other texts"],
)
def test_what_no_order_changes_has_no_range(hits, grades):
    assert ranges({"q": hits}, {"q": grades}, [("a", "b")])[0] == {}


def test_scores_are_compared_as_float32():
    found, _ = ranges({"q": "b=1.000000001 a=1"}, {"q": {"a": 1}}, [("a", "b")], [Measure("RR")])

    assert (found["RR"].least, found["RR"].greatest) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("depth", "excluded", "expected"),
    [
        (2, {}, {"RR": TieRange(num_queries=1, least=0.0, greatest=0.5)}),
        (3, {}, {}),  # the ranking isn't full, so `a` wasn't cut off: it was not found
        (2, {"q": {"a"}}, {}),  # `a` may not be in the ranking
    ],
)
def test_a_text_that_was_cut_off_may_have_the_last_place(depth, excluded, expected):
    # b has the last score, and a has b's text; the order by ids alone has cut it.
    assert (
        ranges({"q": "x=2 b=1"}, {"q": {"a": 1}}, [("a", "b")], [Measure("RR")], depth=depth, excluded=excluded)[0]
        == expected
    )


def fused(*lists, depth, k=60):
    """Return the ranking of reciprocal rank fusion, cut at the depth, and the scores of all documents."""
    scores = {}
    for documents in lists:
        for rank, doc_id in enumerate(documents, start=1):
            scores[doc_id] = scores.get(doc_id, 0) + 1 / (k + rank)
    order = sorted(scores, key=lambda doc_id: (np.float32(scores[doc_id]), doc_id), reverse=True)
    return order[:depth], scores


@pytest.mark.parametrize(
    ("lists", "depth"),
    [
        ((["x", "a1", "y", "a2"], ["x", "a1", "a2"]), 2),  # a2 is lower in both lists, so it is cut off
        ((["a1", "a2", "x"], ["a2", "a1", "y"]), 4),  # a1 and a2 have 1/61 + 1/62 each
        ((["x", "a1", "y", "a2"], ["a2", "x", "a1", "y"]), 4),  # all ranked, with other scores
    ],
    ids=["cut off below", "ranked with equal scores", "ranked with other scores"],
)
@pytest.mark.parametrize("relevant", ["a1", "a2"])
def test_the_range_of_a_fused_ranking_is_that_of_all_orders_of_equal_scores(lists, depth, relevant):
    ranking, scores = fused(*lists, depth=depth)
    qrels = {"q": {relevant: 1}}
    found, _ = ranges({"q": " ".join(f"{d}={scores[d]}" for d in ranking)}, qrels, [("a1", "a2")], depth=None)

    values = {str(measure): set() for measure in MEASURES}
    for first, second in permutations(("a1", "a2")):
        swap = {"a1": first, "a2": second} if scores["a1"] == pytest.approx(scores["a2"], rel=1e-9) else {}
        order = [swap.get(doc_id, doc_id) for doc_id in ranking]
        run = Run(tag="t", rankings={"q": tuple(ScoredDoc(doc_id, -float(i)) for i, doc_id in enumerate(order))})
        for name, value in evaluate(run, qrels, MEASURES).means.items():
            values[name].add(value)
    assert {name: (ties.least, ties.greatest) for name, ties in found.items()} == {
        name: (pytest.approx(min(of_name)), pytest.approx(max(of_name)))
        for name, of_name in values.items()
        if len(of_name) > 1
    }


def test_a_copy_that_a_fusion_cut_off_has_a_score_of_its_own_and_no_range():
    # a2 has the text of a1, and a lower fused score. In every order of documents that tie, a1 is second: nDCG is
    # 1 / log2(3) = 0.63. If a2 could have a1's place, it would be between 0 and 0.63.
    hits, qrels, texts = {"q": "x=0.9 a1=0.5"}, {"q": {"a1": 1}}, [("a1", "a2")]

    assert ranges(hits, qrels, texts, [Measure("nDCG")], depth=None)[0] == {}
    [alone] = ranges(hits, qrels, texts, [Measure("nDCG")], depth=2)[0].values()
    assert (alone.least, alone.greatest) == (0.0, pytest.approx(0.63093, abs=5e-6))


def test_a_range_says_whether_copies_that_were_cut_off_are_in_it():
    for depth, with_cut_off in ((100, True), (None, False)):
        [found] = ranges({"q": "b=1 a=1"}, {"q": {"a": 1}}, [("a", "b")], [Measure("RR")], depth=depth)[0].values()
        assert found.with_cut_off is with_cut_off


def test_measures_that_look_at_more_than_positives_have_no_range():
    assert ranges({"q": "b=1 a=1"}, {"q": {"a": 1}}, [("a", "b")], parse_measures("Bpref,Judged@1"))[0] == {}
