"""trec_eval checks the values of every run."""

import subprocess
import sys
from dataclasses import replace

import pytest

from r2med_ray.errors import StageError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure, not_checked
from r2med_ray.evaluation.trec_eval_check import check_with_trec_eval
from r2med_ray.types import Run, ScoredDoc

MEASURES = [
    Measure.parse(name)
    for name in (
        "nDCG",
        "nDCG@3",
        "nDCG@10",
        "AP",
        "AP@2",
        "R@2",
        "P@3",
        "P@1",
        "RR",
        "RR@1",
        "RR@2",
        "RR@3",
        "Success@2",
        "Bpref",
        "infAP",
    )
]
RUN = Run(
    tag="t",
    rankings={
        "q1": (ScoredDoc("a", 1.0), ScoredDoc("b", 1.0), ScoredDoc("c", 0.5)),
        "q2": (ScoredDoc("x", 3.0), ScoredDoc("y", 2.0), ScoredDoc("a", -1.0)),
        "empty": (),
        "unjudged": (ScoredDoc("a", 1.0),),
    },
)
QRELS = {
    "q1": {"a": 2, "c": 1, "b": 0},
    "q2": {"a": 1, "x": 0, "y": -1},
    "empty": {"a": 1},
    "missing": {"a": 1},
    "nothing": {},
    "zero": {"a": 0},
}


def test_it_agrees_on_ties_gaps_and_cuts():
    check_with_trec_eval(RUN, QRELS, MEASURES, evaluate(RUN, QRELS, MEASURES))


@pytest.mark.parametrize("measure", [str(measure) for measure in MEASURES])
def test_a_value_that_differs_by_more_than_a_billionth_is_refused(measure):
    evaluation = evaluate(RUN, QRELS, MEASURES)
    values = dict(evaluation.per_query["q2"])
    wrong = replace(evaluation, per_query={**evaluation.per_query, "q2": {**values, measure: values[measure] + 2e-9}})

    with pytest.raises(StageError, match=rf"evaluate failed on query 'q2': {measure} is .* here and .* in trec_eval"):
        check_with_trec_eval(RUN, QRELS, MEASURES, wrong)


def test_a_mean_over_other_queries_is_refused():
    evaluation = evaluate(RUN, QRELS, MEASURES)

    with pytest.raises(StageError, match="the mean: RR is"):
        check_with_trec_eval(RUN, QRELS, MEASURES, replace(evaluation, means={**evaluation.means, "RR": 0.9}))


def test_a_measure_that_trec_eval_lacks_is_passed_over_and_named():
    lacking = [Measure.parse(name) for name in ("RBP(p=0.8)@10", "Judged@2", "nDCG(dcg='exp-log2')@3")]
    evaluation = evaluate(RUN, QRELS, [*lacking, *MEASURES])
    wrong = replace(evaluation, means={**evaluation.means, "Judged@2": 0.123})

    check_with_trec_eval(RUN, QRELS, [*lacking, *MEASURES], wrong)
    check_with_trec_eval(RUN, QRELS, lacking, wrong)

    assert not_checked([*MEASURES, *lacking]) == ("RBP(p=0.8)@10", "Judged@2", "nDCG(dcg='exp-log2')@3")


@pytest.mark.parametrize("grades", [{"a": -1}, {"a": -5, "b": -2}, {}])
def test_a_query_without_a_grade_of_0_or_above_does_not_end_the_process(grades):
    # trec_eval's form_res_rels.c clears (highest grade + 1) numbers, and m_bpref.c reads the first of them
    program = f"""
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure, not_checked
from r2med_ray.evaluation.trec_eval_check import check_with_trec_eval
from r2med_ray.types import Run, ScoredDoc
run = Run(tag="t", rankings=dict.fromkeys(("q1", "q2"), (ScoredDoc("a", 1.0),)))
qrels, measures = {{"q1": {grades!r}, "q2": {{"a": 1}}}}, [Measure("AP"), Measure("Bpref"), Measure("infAP")]
check_with_trec_eval(run, qrels, measures, evaluate(run, qrels, measures))
print("alive")
"""

    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "alive\n"
