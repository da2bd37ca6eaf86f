"""Means over queries, and the counts of queries that a mean doesn't show."""

import subprocess
import sys
import tracemalloc

import pytest

from r2med_ray.errors import DataError
from r2med_ray.evaluation.evaluate import evaluate, evaluate_file
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.trec import write_run
from r2med_ray.evaluation.trec_eval_check import check_with_trec_eval
from r2med_ray.types import Run, ScoredDoc

NDCG = [Measure("nDCG", 10)]

# F0 of the pitfalls: three queries with one positive each
F0 = {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d6": 1}}


def run_of(**rankings):
    return Run(
        tag="t",
        rankings={
            query_id: tuple(ScoredDoc(doc_id, -float(i)) for i, doc_id in enumerate(doc_ids.split()))
            for query_id, doc_ids in rankings.items()
        },
    )


@pytest.mark.parametrize("q2", [{}, {"d1": 0}, {"d1": -1}, {"d1": -1, "d2": -1, "d3": -1}])
@pytest.mark.parametrize("order", [("q1", "q2", "q3"), ("q3", "q2", "q1"), ("q2", "q3", "q1")])
def test_mt01_a_query_without_positives_is_counted_and_changes_no_other(q2, order):
    qrels = {"q1": {"d1": 1}, "q2": q2, "q3": {"d3": 1}}
    ranking = "d1 d2 d3"

    evaluation = evaluate(run_of(q1=ranking, q2=ranking, q3=ranking), {name: qrels[name] for name in order}, NDCG)

    # d3 at rank 3: 1/log2(4)
    assert {query_id: values["nDCG@10"] for query_id, values in evaluation.per_query.items()} == {
        "q1": 1.0, "q2": 0.0, "q3": 0.5,
    }  # fmt: skip
    assert evaluation.means == {"nDCG@10": 0.75}
    assert evaluation.values("nDCG@10") == {"q1": 1.0, "q3": 0.5}
    assert (evaluation.num_queries, evaluation.num_without_positives) == (2, 1)


def test_mt07_missing_query_counts_zero():
    evaluation = evaluate(run_of(q1="d1"), F0, NDCG)

    assert evaluation.means["nDCG@10"] == pytest.approx(1 / 3)
    assert (evaluation.num_queries, evaluation.num_unanswered, evaluation.num_unjudged) == (3, 2, 0)


def test_mt07_a_query_that_is_not_judged_is_counted_and_does_not_count():
    evaluation = evaluate(run_of(q1="d1", q9="d1"), F0, NDCG)

    assert evaluation.means["nDCG@10"] == pytest.approx(1 / 3)
    assert "q9" not in evaluation.per_query
    assert (evaluation.num_unanswered, evaluation.num_unjudged) == (2, 1)


def test_mt07_an_empty_ranking_is_an_unanswered_query():
    evaluation = evaluate(run_of(q1=""), F0, NDCG)

    assert evaluation.means == {"nDCG@10": 0.0}
    assert (evaluation.num_queries, evaluation.num_unanswered) == (3, 3)


def test_mt07_mt09_disjoint_ids_are_an_error_that_shows_one_of_each_side():
    with pytest.raises(DataError, match=r"no query in common: the run answers 1 queries, e.g. '7'; .* 1, e.g. '007'"):
        evaluate(run_of(**{"7": "d1"}), {"007": {"d1": 1}}, NDCG)
    with pytest.raises(DataError, match="answers 0 queries, none at all"):
        evaluate(run_of(), F0, NDCG)


def test_qrels_without_any_positive_are_an_error():
    with pytest.raises(DataError, match="none of the 2 queries of the qrels has a judgement above 0"):
        evaluate(run_of(q1="d1"), {"q1": {"d1": 0}, "q2": {}}, NDCG)


def test_da03_a_positive_that_is_nowhere_counts_in_the_ideal():
    evaluation = evaluate(run_of(q1="d1"), {"q1": {"d1": 1, "dX": 1}}, [Measure("R", 10), Measure("nDCG", 10)])

    # 1 of 2; 1 / (1 + 1/log2(3))
    assert evaluation.means == {"R@10": 0.5, "nDCG@10": pytest.approx(1 / 1.6309298)}
    assert evaluation.num_positives == {"q1": 2}


def test_the_same_document_can_be_positive_for_several_queries():
    qrels = {"q1": {"d1": 1, "d2": 2}, "q2": {"d1": 3}, "q3": {"d2": 0, "d1": 1}}

    evaluation = evaluate(run_of(q1="d2 d1", q2="d2 d1", q3="d2 d1"), qrels, [Measure("RR")])

    assert evaluation.values("RR") == {"q1": 1.0, "q2": 0.5, "q3": 0.5}


POSITIVES_ONLY = ("nDCG@5", "AP", "R@3", "P@2", "RR", "Success@1")


@pytest.mark.parametrize("names", [POSITIVES_ONLY, (*POSITIVES_ONLY, "Bpref", "infAP", "Judged@5", "RBP(p=0.9)")])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_file_gives_what_the_run_in_memory_gives(tmp_path, shuffled, names):
    doc_ids = [f"d{i}" for i in range(7)]
    rankings = {
        f"q{i}": tuple(ScoredDoc(doc_id, float((i * 5 + j * 3) % 4)) for j, doc_id in enumerate(doc_ids))
        for i in range(30)
    }
    run = Run(tag="t", rankings=rankings)
    qrels = {f"q{i}": {f"d{i % 9}": 1, f"d{i % 4}": i % 3, f"d{i % 5}": 0, f"d{i % 7}": -1} for i in range(40)}
    measures = [Measure.parse(name) for name in names]
    path = tmp_path / "run.trec"
    write_run(path, run)
    if shuffled:  # scatter the lines of every query over the file
        path.write_text("".join(sorted(path.read_text().splitlines(keepends=True), key=lambda line: line.split()[2])))

    from_file = evaluate_file(path, qrels, measures)

    assert from_file == evaluate(run, qrels, measures)
    assert from_file.num_unanswered == len({f"q{i}" for i in range(30, 40)} & from_file.num_positives.keys())


def test_mt17_memory_stays_flat_over_many_evaluations():
    doc_ids = " ".join(f"d{i}" for i in range(100))
    run = run_of(**{f"q{i}": doc_ids for i in range(50)})
    qrels = {f"q{i}": {"d7": 1} for i in range(50)}
    sizes = []

    tracemalloc.start()
    try:
        for _ in range(20):
            evaluation = evaluate(run, qrels, [Measure("RR"), Measure("Bpref")])
            check_with_trec_eval(run, qrels, [Measure("RR"), Measure("Bpref")], evaluation)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    # The dictionaries of one run of 50 x 100 documents alone take more than 100 kB.
    assert sizes[-1] - sizes[4] < 50_000


def test_scoring_a_file_loads_only_numpy_and_pyarrow(tmp_path):
    (tmp_path / "run.trec").write_text("q Q0 d 1 1.0 t\nq Q0 e 2 1.0 t\n")
    (tmp_path / "qrels").write_text("q 0 d 1\n")
    program = """
import sys
from pathlib import Path
from r2med_ray.evaluation.evaluate import evaluate_file
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.trec import read_qrels
folder = Path(sys.argv[1])
print(evaluate_file(folder / "run.trec", read_qrels(folder / "qrels"), [Measure("RR")]).means)
heavy = {"ray", "torch", "faiss", "pandas", "scipy", "pytrec_eval", "transformers", "pydantic"}
print(sorted(heavy & sys.modules.keys()))
"""

    done = subprocess.run([sys.executable, "-c", program, tmp_path], check=True, capture_output=True, text=True)

    assert done.stdout.splitlines() == ["{'RR': 0.5}", "[]"]


def test_measures_of_positives_give_the_same_bits_beside_measures_of_all_judgements():
    run = run_of(q1="a b c d e f", q2="f e d c b a", q3="x y")
    qrels = {"q1": {"b": 3, "d": 1, "a": 0, "e": -1}, "q2": {"a": 2, "f": 0, "zz": 1}, "q3": {"a": 1}}
    names = ["nDCG@3", "AP", "R@2", "P@5", "RR", "Success@1", "RBP(p=0.7)"]
    alone = evaluate(run, qrels, [Measure.parse(name) for name in names])
    beside = evaluate(run, qrels, [Measure.parse(name) for name in [*names, "Bpref", "Judged@3"]])

    assert all(beside.values(name) == alone.values(name) for name in names)
