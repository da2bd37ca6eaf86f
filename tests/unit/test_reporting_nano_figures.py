"""NanoR2MED's published figures are compared with those of a benchmark."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.evaluation.nano_profile import MEASURES
from r2med_ray.reporting.compare import compare_with_published
from r2med_ray.reporting.record import BenchmarkRecord, MissingRecord, ResultRecord, SystemRecord, TaskRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.verdicts import Verdict, verdicts
from r2med_ray.settings.config_files import parse_config
from r2med_ray.types import Run

TASKS = json.loads((Path(__file__).parents[1] / "golden" / "nanor2med.json").read_text())["tasks"]
HYBRID = {
    "retrievers": [{"candidates": "dense"}, {"candidates": "bm25"}],
    "fusion": {"method": "nano", "k": 100, "depth": 500},
}


def evaluation(task: str, profile: str, *, off: float = 0.0) -> Evaluation:
    """Return an evaluation with the published figures of a task's profile. `off` is added to nDCG@10.

    Each query has one positive, except the first query, which has all other positives. The first query finds as many
    positives as it can. The other queries find the rest of the positives that the task found.
    """
    ndcg, hit, _, _, found = TASKS[task]["profiles"][profile]
    queries = [f"q{number}" for number in range(TASKS[task]["queries"])]
    positives = dict.fromkeys(queries, 1) | {"q0": TASKS[task]["positives"] - len(queries) + 1}
    first = min(found, positives["q0"])
    recall = {query: float(number <= found - first) for number, query in enumerate(queries)}
    recall["q0"] = first / positives["q0"]
    return Evaluation(
        means={"nDCG@10": ndcg + off, "Success@10": hit, "R@100": 0.0},
        per_query={query: {"nDCG@10": ndcg, "Success@10": hit, "R@100": recall[query]} for query in queries},
        num_positives=positives,
        num_unanswered=0,
        num_unjudged=0,
    )


def record(
    system: dict[str, Any], profile: str = "bm25", *, tasks: int = 8, off: float = 0.0, **fields: Any
) -> BenchmarkRecord:
    """Return a benchmark with one system, which has the published figures of a profile on the first `tasks` tasks."""
    config = parse_config({"name": "b", "tasks": ["NanoR2MED/*"], "systems": [{"name": "s", **system}]})
    values: dict[str, Any] = {
        "config": config.model_dump(mode="json"),
        "measures": MEASURES,
        "tasks": tuple(
            TaskRecord(name=name, suite="NanoR2MED", revision="1", qrels={"q": {"d": 1}})
            for name in list(TASKS)[:tasks]
        ),
        "results": tuple(
            ResultRecord(
                system="s",
                task=name,
                evaluation=evaluation(name, profile, off=off),
                run=Run(tag="s", rankings={}),
            )
            for name in list(TASKS)[:tasks]
        ),
    }
    return BenchmarkRecord(
        name="b",
        main_measure="nDCG@10",
        baseline=None,
        depth=100,
        seed=1,
        systems=(SystemRecord(name="s", description="d"),),
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:00:00+00:00",
        **(values | fields),
    )


def judged(*arguments: Any, **fields: Any) -> list[Verdict]:
    return verdicts(summarise(record(*arguments, **fields)))


@pytest.mark.parametrize(
    ("system", "profile"),
    [
        ({"retriever": "bm25-nano"}, "bm25"),
        ({"retriever": {"candidates": "bm25"}}, "bm25"),
        ({"retriever": "harrier-oss-v1-270m"}, "dense"),
        ({"retriever": {"candidates": "dense"}}, "dense"),
        ({"retriever": {"candidates": "reranking_hybrid", "safeguard": "drop"}}, "reranking_hybrid"),
        (HYBRID, "reranking_hybrid"),
        ({**HYBRID, "retrievers": ["bm25-nano", "harrier-oss-v1-270m"]}, "reranking_hybrid"),
    ],
)
def test_each_profile_has_a_verdict_per_figure_of_its_tables(system: dict[str, Any], profile: str) -> None:
    found = judged(system, profile)

    # 8 tasks × 3 measures, and 7 averages of the group
    assert len(found) == 31
    assert {row.verdict for row in found} == {"within"}
    assert [row.task for row in found[:2]] == ["NanoR2MEDBiology", "NanoR2MEDBiology, Success@10"]
    published = {row.task: row.published for row in found}
    assert published["NanoR2MEDBiology"] == TASKS["NanoR2MEDBiology"]["profiles"][profile][0]
    assert {row.source for row in found} == {"GitHub hakari-bench/hakari-bench@217c872"}


def test_the_averages_are_those_of_the_published_tables() -> None:
    found = {row.task: row for row in judged({"retriever": "bm25-nano"})}

    # the published tables have 0.2110 by query, and 1287 of 2678 positives
    assert found["NanoR2MED, query_weighted nDCG@10"].ours == pytest.approx(0.2110, abs=5e-5)
    assert found["NanoR2MED, pooled_micro_recall@100"].ours == pytest.approx(1287 / 2678)


@pytest.mark.parametrize(
    "system",
    [
        {"retriever": "bm25"},
        {"retriever": {"model": "bm25-nano", "k1": 0.9}},
        {"retriever": {"candidates": "mine.parquet"}},
        {"retriever": "bm25-nano", "reranker": {"model": "maxsim-minilm", "depth": 10}},
        {"retriever": "bm25-nano", "rewriter": {"method": "hyde", "generations": "gpt4"}},
        {**HYBRID, "fusion": {"method": "nano", "k": 60, "depth": 500}},
        {**HYBRID, "retrievers": [{"candidates": "bm25"}, {"candidates": "bm25"}]},
        {**HYBRID, "retrievers": [{"candidates": "bm25"}, "bm25"]},
    ],
)
def test_what_is_none_of_the_profiles_is_compared_with_nothing(system: dict[str, Any]) -> None:
    assert judged(system) == []


def test_a_collection_of_ones_own_in_that_layout_is_compared_with_nothing() -> None:
    published = record({"retriever": "bm25-nano"}, tasks=1)
    own = replace(published, tasks=(replace(published.tasks[0], suite="NanoR2MEDBiology"),))

    assert verdicts(summarise(published)) != []
    assert verdicts(summarise(own)) == []


def test_lists_are_held_to_their_decimals_and_a_search_to_what_ties_can_do() -> None:
    lists, search = (
        judged({"retriever": retriever}, off=0.001)[0] for retriever in ({"candidates": "bm25"}, "bm25-nano")
    )

    assert (lists.verdict, lists.tolerance) == ("outside", 1e-9)
    assert (search.verdict, search.tolerance) == ("within", 0.002)
    assert [reason.name for reason in lists.reasons] == ["nano-lists-anew"]


def test_plain_words_are_compared_with_the_old_column_and_todays_figures_are_far_from_it() -> None:
    found = judged({"retriever": "bm25-nano-plain"}, "bm25")

    # 8 tasks × 2 measures, and 2 averages. On PMCTreatment, today's lists have 0.2580 and the old lists 0.0180.
    assert len(found) == 18
    treatment = next(row for row in found if row.task == "NanoR2MEDPMCTreatment")
    assert (treatment.published, treatment.verdict) == (0.018, "outside")
    assert [reason.name for reason in treatment.reasons] == ["nano-tokenizer-unknown"]


def test_some_of_the_tasks_have_no_average() -> None:
    assert [row.task for row in judged({"retriever": "bm25-nano"}, tasks=1)] == [
        "NanoR2MEDBiology",
        "NanoR2MEDBiology, Success@10",
        "NanoR2MEDBiology, pooled_micro_recall@100",
    ]


def test_what_was_not_at_hand_or_not_measured_is_needed() -> None:
    missing = (MissingRecord(system="s", task="NanoR2MEDIIYiClinical", needs="the list 'bm25'"),)
    whole = record({"retriever": "bm25-nano"})
    lacking = verdicts(summarise(record({"retriever": "bm25-nano"}, results=whole.results[:7], missing=missing)))
    unmeasured = judged({"retriever": "bm25-nano"}, measures=("nDCG@10", "R@100"))

    assert [row.verdict for row in lacking if row.ours is None] == ["needs the list 'bm25'"] * (3 + 7)
    assert {row.verdict for row in unmeasured} == {"needs Success@10 among `measures`"}


def test_the_comparison_says_how_many_figures_agree() -> None:
    text = compare_with_published(record({"retriever": {"candidates": "bm25"}}))

    assert "31 within, of 31 published figures." in text


def test_some_of_the_queries_compare_with_nothing() -> None:
    whole = record({"retriever": "bm25-nano"})

    assert verdicts(summarise(replace(whole, tasks=(replace(whole.tasks[0], is_part=True), *whole.tasks[1:])))) == []
