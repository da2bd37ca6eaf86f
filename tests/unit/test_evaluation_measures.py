"""Measures equal values that were worked out by hand, and those of trec_eval."""

import pickle

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.errors import ConfigError, StageError
from r2med_ray.evaluation.definitions import DEFINITIONS
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.invariants import require_possible
from r2med_ray.evaluation.measure_row import Definition, Parameter
from r2med_ray.evaluation.measures import Measure, not_checked, parse_measures
from r2med_ray.evaluation.trec_eval_check import check_with_trec_eval
from r2med_ray.types import Run, ScoredDoc

TREC_EVAL_NAMES = {
    "nDCG@10": "ndcg_cut_10", "nDCG@3": "ndcg_cut_3", "nDCG": "ndcg", "AP": "map", "AP@3": "map_cut_3",
    "R@2": "recall_2", "R@100": "recall_100", "P@5": "P_5", "RR": "recip_rank", "Success@2": "success_2",
    "Bpref": "bpref", "infAP": "infAP",
}  # fmt: skip


def run_of(*doc_ids):
    return Run(tag="t", rankings={"q": tuple(ScoredDoc(doc_id, -float(i)) for i, doc_id in enumerate(doc_ids))})


def value(measure, ranking, judged):
    return evaluate(run_of(*ranking), {"q": judged}, [Measure.parse(measure)]).means[measure]


SPELLED = (
    "nDCG@10", "nDCG", "AP", "AP@100", "R@7", "P@10", "RR", "RR@10", "Success@1", "Judged@5", "Judged", "Bpref",
    "RBP(p=0.8)", "RBP(p=0.95)@10", "nDCG(dcg='exp-log2')", "nDCG(dcg='exp-log2')@10", "infAP",
)  # fmt: skip


@pytest.mark.parametrize("text", SPELLED)
def test_a_measure_prints_as_what_it_was_read_from(text):
    assert str(Measure.parse(text)) == text
    assert Measure.parse(str(Measure.parse(text))) == Measure.parse(text)


@pytest.mark.parametrize("text", SPELLED)
def test_ir_measures_reads_the_same_measure(text):
    ours, theirs = Measure.parse(text), ir_measures.parse_measure(text)

    assert (theirs.NAME, theirs.params) == (
        ours.name, dict(ours.parameters) | ({"cutoff": ours.cutoff} if ours.cutoff else {}),
    )  # fmt: skip


def test_measures_stand_between_commas_and_so_do_parameters():
    assert [str(measure) for measure in parse_measures("RR, nDCG(dcg='exp-log2')@10,RBP(p=0.5)")] == [
        "RR", "nDCG(dcg='exp-log2')@10", "RBP(p=0.5)",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"measure 'RBP' has no parameter 'q'"):
        parse_measures("RR,RBP(p=0.5,q=1)")


def test_a_measure_can_be_sent_to_another_process():
    for text in SPELLED:
        assert pickle.loads(pickle.dumps(Measure.parse(text))) == Measure.parse(text)


def test_every_row_says_where_its_measure_is_defined():
    assert all(row.citation for row in DEFINITIONS.values())


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
        ("nDCG@010", "is spelled 'nDCG@10'"),
        ("bpref", "Did you mean 'Bpref'?"),
        ("Bpref@10", "Bpref looks at the whole ranking and has no cut-off"),
        ("infap", "Did you mean 'infAP'?"),
        ("judged@5", "Did you mean 'Judged@5'?"),
        ("RBP", "measure 'RBP' needs p, e.g. 'RBP(p=0.8)'"),
        ("rbp@10", "Did you mean 'RBP(p=0.8)@10'?"),
        ("rbp(p=0.5)@10", "Did you mean 'RBP(p=0.5)@10'?"),
        ("RBP(p=0.80)", "is spelled 'RBP(p=0.8)'"),
        ("RBP(p=1.5)", "p should be a number above 0 and below 1"),
        ("RBP(p='0.8')", "got '0.8'"),
        ("RBP(q=0.8)", "measure 'RBP' has no parameter 'q'"),
        ("RBP(0.8)", "expected name=value in the parentheses"),
        ("RBP(p=[1])", "expected name=value in the parentheses"),
        ("RBP(p=print)", "expected name=value in the parentheses"),
        ("nDCG(dcg='log2')@10", "is spelled 'nDCG@10'"),
        ("nDCG(dcg='log10')@10", "dcg should be 'log2'"),
        ('nDCG(dcg="exp-log2")@10', "is spelled \"nDCG(dcg='exp-log2')@10\""),
        ("AP(rel=2)", "measure 'AP' has no parameter 'rel'. Known: none"),
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
        # the ideal list also holds the positive that is not ranked: 1 / 1.6309298
        pytest.param("nDCG", "a x", {"a": 1, "missing": 1}, 1 / 1.6309298, id="positive-that-is-not-found"),
        # the ideal list is cut as well: 1 / 1
        pytest.param("nDCG@1", "a b", {"a": 1, "b": 1}, 1.0, id="ideal-is-cut"),
        # precision 1/1 at a, 2/3 at b, 0 for c; divided by all 3 positives
        pytest.param("AP", "a x b", {"a": 1, "b": 1, "c": 1}, (1 + 2 / 3) / 3, id="average-precision"),
        # b is below the cut, but the sum is still divided by both positives
        pytest.param("AP@2", "a x b", {"a": 1, "b": 1}, 1 / 2, id="average-precision-cut"),
        pytest.param("R@2", "a x b", {"a": 1, "b": 2}, 1 / 2, id="recall"),
        # the number is divided by k, although only three documents are ranked
        pytest.param("P@10", "a x b", {"a": 1, "b": 1}, 2 / 10, id="precision"),
        pytest.param("RR", "x y a b", {"a": 1, "b": 1}, 1 / 3, id="reciprocal-rank"),
        pytest.param("RR@2", "x y a", {"a": 1}, 0.0, id="reciprocal-rank-cut"),
        pytest.param("RR@3", "x y a", {"a": 1}, 1 / 3, id="reciprocal-rank-at-the-cut"),
        pytest.param("Success@2", "x a", {"a": 1}, 1.0, id="success"),
        pytest.param("Success@1", "x a", {"a": 1}, 0.0, id="no-success"),
        pytest.param("nDCG@10", "x y", {"a": 1}, 0.0, id="nothing-found"),
        # gains 2**1 - 1 = 1 and 2**2 - 1 = 3: DCG = 1 + 3/1.5849625 = 2.8927893; ideal = 3 + 1/1.5849625 = 3.6309298
        pytest.param(
            "nDCG(dcg='exp-log2')@10", "a b", {"a": 1, "b": 2}, 2.8927893 / 3.6309298, id="exponential-gain"
        ),
        # the same with a cut: 1 / 3
        pytest.param("nDCG(dcg='exp-log2')@1", "a b", {"a": 1, "b": 2}, 1 / 3, id="exp-gain-cut"),
        # a and n are judged, x is not; b is at rank 4
        pytest.param("Judged@3", "a x n b", {"a": 1, "n": 0, "b": 1}, 2 / 3, id="judged"),
        # the ranking has 4 documents, so the share is 3 of 4
        pytest.param("Judged@10", "a x n b", {"a": 1, "n": 0, "b": 1}, 3 / 4, id="judged-in-a-short-ranking"),
        # a grade below 0 is in the qrels, too
        pytest.param("Judged", "n x", {"a": 1, "n": -1}, 1 / 2, id="judged-below-0"),
        # R = 3, and three documents have grade 0. One of them is above a, two are above b, and c is not ranked:
        # (2/3 + 1/3 + 0) / 3
        pytest.param(
            "Bpref", "n a x m b", {"a": 1, "b": 1, "c": 1, "n": 0, "m": 0, "l": 0}, (2 / 3 + 1 / 3) / 3, id="bpref"
        ),
        # there are two positives and one document with grade 0, which is above both: each has 1 - 1/1
        pytest.param("Bpref", "n a b", {"a": 1, "b": 2, "n": 0}, 0.0, id="bpref-with-few-judged-nonrelevant"),
        # there is one positive, so only the first document with grade 0 counts: 1 - min(2, 1) / min(2, 1)
        pytest.param("Bpref", "n m a", {"a": 1, "n": 0, "m": 0}, 0.0, id="bpref-counts-no-more-than-positives"),
        # no document has grade 0: the documents above a were not judged
        pytest.param("Bpref", "p x a", {"a": 1, "p": -1}, 1.0, id="bpref-passes-over-pooled-and-unjudged"),
        # (1 - 0.5) * (0.5**0 + 0.5**2); the grade doesn't matter
        pytest.param("RBP(p=0.5)", "a x b", {"a": 3, "b": 1}, 0.5 * (1 + 0.25), id="rbp"),
        # b is below the cut
        pytest.param("RBP(p=0.5)@2", "a x b", {"a": 3, "b": 1}, 0.5, id="rbp-cut"),
        # rank 1 has 1; rank 3 has 1/3 + 1/3 * 1.00001/1.00002, because only a was judged above b; 2 positives
        pytest.param("infAP", "a x b", {"a": 1, "b": 1}, (1 + 1 / 3 + 1.00001 / 1.00002 / 3) / 2, id="infap"),
        # rank 2 has 1/2 + 1/2 * 0.00001/0.00002: p is in the pool, and nothing is known about the pool's relevance
        pytest.param("infAP", "p a", {"a": 1, "p": -1}, 1 / 2 + 1 / 4, id="infap-passes-over-the-pool"),
        # rank 2 has 1/2 + 0: x was not in the pool
        pytest.param("infAP", "x a", {"a": 1}, 1 / 2, id="infap-takes-what-was-not-pooled-as-nonrelevant"),
        # rank 3 has 1/3 + 2/3 * 0.00001/1.00002: n was judged and is not relevant, so p is inferred to be the same
        pytest.param(
            "infAP", "p n a", {"a": 1, "n": 0, "p": -2}, 1 / 3 + 2 / 3 * 0.00001 / 1.00002, id="infap-infers"
        ),
    ],
)
def test_values_worked_out_by_hand(measure, ranking, judged, expected):
    assert value(measure, ranking.split(), judged) == pytest.approx(expected, abs=1e-7)


def test_mt15_recall_divides_by_all_positives_and_not_by_k():
    positives = {f"d{i}": 1 for i in range(20)}

    # 10 of 20 positives are found
    assert value("R@10", [f"d{i}" for i in range(10)], positives) == 0.5


@pytest.mark.parametrize("grade", [0, -1, -5])
def test_mt17_a_grade_of_0_or_below_is_a_gain_of_0(grade):
    # only a counts, with 1/log2(3); n takes nothing away
    assert value("nDCG@10", ["n", "a"], {"a": 1, "n": grade}) == pytest.approx(1 / np.log2(3))
    assert value("P@1", ["n", "a"], {"a": 1, "n": grade}) == 0.0


@settings(max_examples=50)
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

    # if no grade is 0 or above, trec_eval reads memory that isn't its own
    safe = {query_id: grades for query_id, grades in qrels.items() if max(grades.values()) >= 0}
    names = {"ndcg_cut.3,10", "ndcg", "map", "map_cut.3", "recall.2,100", "P.5", "recip_rank", "success.2"}
    theirs = pytrec_eval.RelevanceEvaluator(safe, {*names, "bpref", "infAP"}).evaluate(run)
    rankings = {q: tuple(ScoredDoc(doc_id, score) for doc_id, score in hits.items()) for q, hits in run.items()}
    ours = evaluate(Run(tag="t", rankings=rankings), qrels, [Measure.parse(name) for name in TREC_EVAL_NAMES])

    for query_id, values in theirs.items():
        for name, trec_eval_name in TREC_EVAL_NAMES.items():
            assert ours.per_query[query_id][name] == pytest.approx(values[trec_eval_name], abs=1e-9)


def test_a_function_and_one_row_are_all_that_a_measure_needs(monkeypatch):
    def depth(rankings, cutoff, weight):
        """The sum of the ranks of the positives. It is far above 1, and trec_eval has no such measure."""
        return weight * rankings.positives.sums(rankings.positives.rank * (rankings.positives.rank <= cutoff))

    weight = Parameter(accepts=lambda value: isinstance(value, int), expected="a whole number", example=2)
    row = Definition(values=depth, parameters={"weight": weight}, high=None, grows=True, citation="this test")
    monkeypatch.setitem(DEFINITIONS, "Depth", row)
    run, qrels = run_of("x", "a", "b"), {"q": {"a": 1, "b": 1}}
    measures = parse_measures("Depth(weight=3)@2,Depth(weight=3),RR")

    found = evaluate(run, qrels, measures)
    check_with_trec_eval(run, qrels, measures, found)
    require_possible(found.per_query, measures, qrels, unit="t")

    # 3 * 2; 3 * (2 + 3); 1/2
    assert found.means == {"Depth(weight=3)@2": 6.0, "Depth(weight=3)": 15.0, "RR": 0.5}
    assert not_checked(measures) == ("Depth(weight=3)@2", "Depth(weight=3)")
    with pytest.raises(StageError, match=r"Depth\(weight=3\)@2 is 6\.0 and Depth\(weight=3\) only 5\.0"):
        require_possible({"q": {**found.per_query["q"], "Depth(weight=3)": 5.0}}, measures, qrels, unit="t")
