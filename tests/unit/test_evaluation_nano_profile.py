"""The published figures of NanoR2MED agree with one another."""

import json
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.nano_profile import MEASURES, NanoProfile, as_published, group_figures
from r2med_ray.evaluation.published import published
from r2med_ray.retrieval.ranked_lists import in_order
from r2med_ray.types import Run

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "nanor2med.json").read_text())
TASKS = GOLDEN["tasks"]
PROFILES = ("bm25", "dense", "reranking_hybrid")
QRELS = {"q1": {"d1": 1, "d2": 1, "d3": 1}, "q2": {"d4": 1}, "q3": {"d9": 0}}
RUN = Run(tag="r", rankings={"q1": in_order(["d1", "x"]), "q2": in_order(["d4"])})


def profile(task: str, name: str) -> NanoProfile:
    ndcg, hit, _, _, found = TASKS[task]["profiles"][name]
    return NanoProfile(
        queries=TASKS[task]["queries"],
        positives=TASKS[task]["positives"],
        ndcg_at_10=ndcg,
        hit_at_10=hit,
        found_at_100=found,
    )


def test_a_profile_is_read_off_an_evaluation() -> None:
    found = NanoProfile.of(evaluate(RUN, QRELS, [Measure.parse(name) for name in MEASURES]))

    # 2 of 4 positives are found: 1/3 and 1 per query, so the macro mean of R@100 would be 0.667. q3 has no positive.
    assert (found.queries, found.positives, found.found_at_100) == (2, 4, 2)
    assert found.micro_recall_at_100 == 0.5
    assert found.hit_at_10 == 1.0


def test_a_profile_needs_its_measures() -> None:
    with pytest.raises(ConfigError, match="R@100 was not measured"):
        NanoProfile.of(evaluate(RUN, QRELS, [Measure("nDCG", 10)]))


@pytest.mark.parametrize("name", PROFILES)
def test_published_hits_and_recalls_are_whole_numbers_over_their_counts(name: str) -> None:
    for task in TASKS.values():
        _, hit, recall, hits, found = task["profiles"][name]
        assert hit == pytest.approx(hits / task["queries"], abs=1e-9)
        assert recall == pytest.approx(found / task["positives"], abs=1e-9)


@pytest.mark.parametrize("name", PROFILES)
def test_published_group_values_follow_from_the_tasks(name: str) -> None:
    found = group_figures({task: profile(task, name) for task in TASKS})

    assert found == pytest.approx(GOLDEN["group"][name], abs=1e-9)


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("bm25", "nano-bm25"),
        ("dense", "microsoft/harrier-oss-v1-270m"),
        ("reranking_hybrid", "rrf/nano-bm25+microsoft/harrier-oss-v1-270m"),
    ],
)
def test_figures_have_the_names_of_the_published_table(name: str, system: str) -> None:
    found = as_published({task: profile(task, name) for task in TASKS})

    assert found == pytest.approx({(row.task, row.measure): row.value for row in published(system=system)}, abs=1e-9)


def test_the_three_recalls_of_a_group_differ() -> None:
    found = group_figures({task: profile(task, "bm25") for task in TASKS})

    # The published tables have 0.507, 0.512 and 0.481. Only the last figure is the share of all positives.
    assert found["query_weighted_recall_at_100"] == pytest.approx(0.5070, abs=5e-5)
    assert found["task_macro_recall_at_100"] == pytest.approx(0.5116, abs=5e-5)
    assert found["pooled_micro_recall_at_100"] == pytest.approx(1287 / 2678)


def test_safeguards_are_the_queries_that_fusion_left_without_a_positive() -> None:
    assert sum(task["safeguards"] for task in TASKS.values()) == GOLDEN["safeguards"] == 122
    for task in TASKS.values():
        assert task["acc_at_100"] == pytest.approx(1 - task["safeguards"] / task["queries"], abs=1e-12)
