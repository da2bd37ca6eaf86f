"""Results in MTEB's shape."""

from dataclasses import replace

import pytest

from r2med_ray.reporting.mteb_results import mteb_result
from tests.unit.reporting_records import ALPHA, BETA, record, result


def test_the_shape_is_that_of_mteb():
    content = mteb_result(record(), ALPHA, result("first", ALPHA, {"q1": "d1"}, seconds={"search": 0.5, "fuse": 1.0}))

    assert list(content) == [
        "dataset_revision", "task_name", "mteb_version", "scores", "evaluation_time", "kg_co2_emissions",
    ]  # fmt: skip
    assert (content["dataset_revision"], content["task_name"]) == ("abc123", "Alpha")
    assert content["mteb_version"] is None
    assert content["evaluation_time"] == 1.5
    (scores,) = content["scores"]["test"]
    assert (scores["hf_subset"], scores["languages"]) == ("default", ["eng-Latn"])


def test_scores_are_means_over_all_judged_queries_with_five_decimals():
    answers = {"q3": "d3 x d4"}
    (scores,) = mteb_result(record(), BETA, result("first", BETA, answers))["scores"]["test"]

    # DCG = 1 + 1/log2(4) = 1.5; ideal of three = 1 + 0.63093 + 0.5 = 2.13093
    assert scores["ndcg_at_10"] == 0.70392
    # (1/1 + 2/3) / 3
    assert scores["map_at_10"] == 0.55556
    assert scores["recall_at_1"] == 0.33333
    assert scores["precision_at_3"] == 0.66667
    assert scores["mrr_at_1"] == 1.0
    assert scores["main_score"] == 1.0  # RR, the main measure of this benchmark


@pytest.mark.parametrize(("depth", "cutoffs"), [(100, [1, 3, 5, 10, 20, 100]), (10, [1, 3, 5, 10])])
def test_no_cut_off_goes_below_the_depth_of_the_run(depth, cutoffs):
    (scores,) = mteb_result(record(depth=depth), ALPHA, result("first", ALPHA, {"q1": "d1"}))["scores"]["test"]

    for name in ("ndcg", "map", "recall", "precision", "mrr"):
        assert [int(key.rsplit("_", 1)[1]) for key in scores if key.startswith(f"{name}_at_")] == cutoffs


def test_tasks_of_r2med_have_the_name_that_mteb_gives_them():
    task = replace(ALPHA, name="MedXpertQA-Exam", suite="R2MED")
    content = mteb_result(record(), task, result("first", task, {"q1": "d1"}))

    assert content["task_name"] == "R2MEDMedXpertQAExamRetrieval"
