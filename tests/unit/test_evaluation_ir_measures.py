"""Measures equal those of ir_measures, which uses cwl_eval, gdeval, trec_eval and code of its own."""

import random
import shutil

import ir_measures
import pytest

from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.ranking import best
from r2med_ray.types import Run, ScoredDoc

GAINS = {grade: 2**grade - 1 for grade in range(2, 5)}
"""The exponential gains. ir_measures can pass them to trec_eval in place of the grades."""


def collection(seed, *, grades):
    """Return a run with ties, and qrels. The run lacks a judged query, and it answers queries that are not judged."""
    source = random.Random(seed)
    doc_ids = [f"d{number}" for number in range(30)]
    qrels = {
        str(query): {"d1": 1} | {source.choice(doc_ids): source.choice(grades) for _ in range(12)}
        for query in range(20)
    }
    rankings = {
        str(query): tuple(
            ScoredDoc(doc_id, source.choice([0.0, 0.5, 1.0, 1.5, 2.0, 2.5]))
            for doc_id in source.sample(doc_ids, source.randint(1, 25))
        )
        for query in range(1, 22)
    }
    positive = {query_id: judged for query_id, judged in qrels.items() if max(judged.values()) > 0}
    return Run(tag="t", rankings=rankings), positive


def without_ties(run, depth=None):
    """Return scores that fall by 1 from rank to rank, because other tools order equal scores in their own way."""
    return {
        query_id: {hit.doc_id: -float(rank) for rank, hit in enumerate(best(ranking, depth or len(ranking)))}
        for query_id, ranking in run.rankings.items()
    }


def per_query(provider, measure, qrels, run):
    return {metric.query_id: metric.value for metric in provider.iter_calc([measure], qrels, run)}


CASES = [
    pytest.param("Bpref", "Bpref", None, id="bpref"),
    pytest.param("infAP", "infAP", None, id="infap"),
    pytest.param("RBP(p=0.8)", "RBP(p=0.8,rel=1)", None, id="rbp"),
    pytest.param("RBP(p=0.95)", "RBP(p=0.95,rel=1)", None, id="rbp-patient"),
    pytest.param("RBP(p=0.8)@4", "RBP(p=0.8,rel=1)", 4, id="rbp-cut"),
    pytest.param("Judged@5", "Judged@5", None, id="judged"),
    pytest.param("Judged@100", "Judged@100", None, id="judged-in-short-rankings"),
    pytest.param("Judged", "Judged", None, id="judged-whole"),
    pytest.param("nDCG(dcg='exp-log2')@10", f"nDCG(gains={GAINS})@10", None, id="exponential-gain"),
    pytest.param("nDCG(dcg='exp-log2')", f"nDCG(gains={GAINS})", None, id="exponential-gain-whole"),
]


@pytest.mark.parametrize(("ours", "theirs", "depth"), CASES)
@pytest.mark.parametrize("seed", range(5))
def test_every_query_equals_ir_measures(ours, theirs, depth, seed):
    run, qrels = collection(seed, grades=[-2, -1, 0, 0, 1, 1, 2, 3, 4])

    values = evaluate(run, qrels, [Measure.parse(ours)]).values(ours)
    expected = per_query(ir_measures, ir_measures.parse_measure(theirs), qrels, without_ties(run, depth))

    # Query 0 is judged and not answered, so it has 0. Queries 20 and 21 are answered and not judged.
    assert values.keys() == expected.keys() == qrels.keys()
    assert values == pytest.approx(expected, abs=1e-9)
    assert values["0"] == 0.0
    assert len(set(values.values())) > 3


@pytest.mark.parametrize("seed", range(3))
def test_exponential_gain_equals_gdeval_ties_included(seed):
    if shutil.which("perl") is None:
        pytest.skip("gdeval is a Perl script, and there is no perl")
    run, qrels = collection(seed, grades=[-1, 0, 1, 2, 3, 4])
    scores = {query_id: {hit.doc_id: hit.score for hit in ranking} for query_id, ranking in run.rankings.items()}
    name = "nDCG(dcg='exp-log2')@10"

    values = evaluate(run, qrels, [Measure.parse(name)]).values(name)
    expected = per_query(ir_measures.gdeval, ir_measures.parse_measure(name), qrels, scores)

    # gdeval prints five decimals
    assert values == pytest.approx(expected, abs=5.1e-6)


def test_judgements_of_one_kind_only():
    run = Run(tag="t", rankings={"q": tuple(ScoredDoc(doc_id, -float(rank)) for rank, doc_id in enumerate("nxapb"))})

    for grades in ({"a": 1, "b": 2}, {"a": 1, "n": 0}, {"a": 1, "p": -1, "n": -1}, {"z": 1, "n": 0, "p": -3}):
        for name in ("Bpref", "infAP", "Judged@4"):
            expected = per_query(ir_measures, ir_measures.parse_measure(name), {"q": grades}, without_ties(run))
            assert evaluate(run, {"q": grades}, [Measure.parse(name)]).values(name) == pytest.approx(expected)
