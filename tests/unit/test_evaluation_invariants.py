"""Rules that every result keeps, checked on our own results and on published files that are at hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.errors import StageError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.invariants import require_possible, require_same_head, violations
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.own_measures import OwnFunction
from r2med_ray.evaluation.published import published, published_score
from r2med_ray.types import Run, ScoredDoc

SOURCES = Path(__file__).parents[2].parent / "shared" / "reference" / "published"
QUERIES = {
    "Biology": 103, "Bioinformatics": 77, "Medical-Sciences": 88, "MedXpertQA-Exam": 97, "MedQA-Diag": 118,
    "PMC-Treatment": 150, "PMC-Clinical": 114, "IIYi-Clinical": 129,
}  # fmt: skip
SPELLING = {"ndcg": "nDCG", "map": "AP", "recall": "R", "precision": "P"}


def measured(values: dict[str, float]) -> dict[Measure, float]:
    return {Measure.parse(name): value for name, value in values.items()}


def run(*doc_ids: str) -> Run:
    hits = tuple(ScoredDoc(doc_id, -float(rank)) for rank, doc_id in enumerate(doc_ids))
    return Run(tag="s", rankings={"q1": hits})


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"R@10": 1.01}, "R@10 is 1.01, which is no share"),
        ({"R@100": 0.2, "R@10": 0.3}, "R@10 is 0.3 and R@100 only 0.2"),
        ({"AP": 0.2, "AP@5": 0.3}, "AP@5 is 0.3 and AP only 0.2"),
        # two queries have ten places each, so 0.33 would be 6.6 documents
        ({"P@10": 0.33}, "P@10 is 0.33, 6.6000 relevant documents in 20 places"),
        ({"nDCG@1": 0.5, "P@1": 1.0}, "nDCG@1 is 0.5 and P@1 is 1.0, although every judgement is 0 or 1"),
    ],
)
def test_an_impossible_result_is_named(values, problem):
    assert violations(measured(values), queries=2) == [problem]


def test_a_possible_result_breaks_nothing():
    values = {"nDCG@1": 0.5, "P@1": 0.5, "P@10": 0.35, "R@10": 0.3, "R@100": 0.3, "AP": 0.2, "nDCG@10": 0.4}

    assert violations(measured(values), queries=2) == []
    assert violations(measured({"nDCG@1": 0.5, "P@1": 1.0}), queries=2, binary=False) == []


def test_the_query_of_an_impossible_value_is_named_and_graded_judgements_are_spared():
    values = {"q7": {"nDCG@1": 0.5, "P@1": 1.0}}
    measures = [Measure("nDCG", 1), Measure("P", 1)]

    require_possible(values, measures, {"q7": {"d1": 2, "d2": 1}}, unit="bm25 on Biology")
    with pytest.raises(StageError, match=r"bm25 on Biology, query 'q7': nDCG@1 is 0\.5 and P@1"):
        require_possible(values, measures, {"q7": {"d1": 1}}, unit="bm25 on Biology")


@given(
    ranking=st.permutations([f"d{number}" for number in range(6)]),
    positives=st.lists(st.sets(st.integers(0, 7), min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_our_own_results_keep_the_rules(ranking, positives):
    names = [f"{name}@{cutoff}" for name in ("nDCG", "AP", "R", "P", "RBP(p=0.8)", "Judged") for cutoff in (1, 3, 10)]
    measures = [Measure.parse(name) for name in [*names, "Bpref", "infAP", "RBP(p=0.8)"]]
    hits = tuple(ScoredDoc(doc_id, -float(rank)) for rank, doc_id in enumerate(ranking))
    qrels = {f"q{i}": {f"d{number}": 1 for number in numbers} for i, numbers in enumerate(positives)}

    found = evaluate(Run(tag="s", rankings=dict.fromkeys(qrels, hits)), qrels, measures)

    assert violations(measured(found.means), queries=len(qrels)) == []
    require_possible(found.per_query, measures, qrels, unit="s")


def test_bounds_and_growth_are_those_of_the_row():
    own = OwnFunction(path="my_module.my_measure", low=None, high=3.0)
    mine = Measure.defined("Mine@5", own)

    assert violations({mine: 2.9}, queries=2) == []
    assert violations({mine: -40.0}, queries=2) == []
    assert violations({mine: 3.1}, queries=2) == ["Mine@5 is 3.1, which is above 3"]
    assert violations({replace(mine, own=replace(own, low=0.5)): 0.4}, queries=2) == [
        "Mine@5 is 0.4, which is below 0.5"
    ]
    assert violations({mine: float("nan")}, queries=2) == ["Mine@5 is nan, which is no finite number"]
    # With the same p, a deeper cut-off can only raise RBP. It may lower Judged.
    assert violations(measured({"RBP(p=0.8)@5": 0.4, "RBP(p=0.8)@9": 0.3}), queries=2) == [
        "RBP(p=0.8)@5 is 0.4 and RBP(p=0.8)@9 only 0.3"
    ]
    assert violations(measured({"RBP(p=0.8)@5": 0.4, "RBP(p=0.9)@9": 0.3}), queries=2) == []
    assert violations(measured({"Judged@5": 0.4, "Judged@9": 0.3}), queries=2) == []


def test_a_reranker_may_only_reorder_the_head():
    require_same_head(run("a", "b", "c"), run("b", "a", "c"), 2)
    require_same_head(run("a", "b", "c"), run("b", "a"), 2)
    for other in (run("a", "c", "b"), run("a"), Run(tag="s", rankings={})):
        with pytest.raises(StageError, match="rerank failed on query 'q1': the first 2 documents of 's'"):
            require_same_head(run("a", "b", "c"), other, 2)


def test_published_rerankers_find_no_more_than_what_they_were_given():
    rows = [row for row in published(measure="R@100") if row.depth]

    assert len(rows) == 48
    for row in rows:
        first = published_score(retriever=row.retriever, task=row.task, measure="R@100").value
        assert row.value == first if row.depth == 100 else row.value <= first


def test_precision_at_100_documents_finds_no_less_than_average_precision_claims():
    values = {(row.system, row.source, row.task, row.measure): row.value for row in published()}
    pairs = [(value, values[*key[:3], "R@100"]) for key, value in values.items() if key[3] == "AP@100"]

    # AP@k is a sum of precisions, one per found positive and each at most 1, divided by all positives. So it is at
    # most R@k.
    assert len(pairs) > 800
    assert all(average_precision <= recall + 1e-5 for average_precision, recall in pairs)


def test_every_published_file_keeps_the_rules():
    if not SOURCES.is_dir():
        pytest.skip(f"the sources are not here: {SOURCES}")
    records = json.loads((SOURCES / "r2med_published_results.json").read_text())
    records += json.loads((SOURCES / "r2med_published_extra.json").read_text())["history_records"]

    checked = [record for record in records if record["task"] in QUERIES]

    assert len(checked) == 568 + 56
    for record in checked:
        values = {}
        for key, value in record["metrics"].items():
            name, _, cutoff = key.partition("_at_")
            if name in SPELLING:
                values[f"{SPELLING[name]}@{cutoff}"] = value
        # the files have five decimals
        assert violations(measured(values), queries=QUERIES[record["task"]], tolerance=1e-5) == [], record["source"]
