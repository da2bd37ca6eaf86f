"""Results in MTEB's shape. tests/integration/test_mteb.py shows that mteb reads them."""

import json
from dataclasses import replace

import pytest

from r2med_ray.reporting.mteb_results import export_mteb, mteb_result
from tests.unit.reporting_records import ALPHA, BETA, FIRST, SECOND, record, result


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

    # DCG = 1 + 1/log2(4) = 1.5; the ideal of three positives is 1 + 0.63093 + 0.5 = 2.13093
    assert scores["ndcg_at_10"] == 0.70392
    # (1/1 + 2/3) / 3
    assert scores["map_at_10"] == 0.55556
    assert scores["recall_at_1"] == 0.33333
    assert scores["precision_at_3"] == 0.66667
    assert scores["mrr_at_1"] == 1.0
    assert scores["hit_rate_at_1"] == 1.0
    assert scores["main_score"] == 0.70392  # nDCG@10, although the benchmark's main measure is RR


@pytest.mark.parametrize(("depth", "cutoffs"), [(100, [1, 3, 5, 10, 20, 100]), (10, [1, 3, 5, 10])])
def test_no_cut_off_goes_below_the_depth_of_the_run(depth, cutoffs):
    (scores,) = mteb_result(record(depth=depth), ALPHA, result("first", ALPHA, {"q1": "d1"}))["scores"]["test"]

    for name in ("ndcg", "map", "recall", "precision", "mrr", "hit_rate"):
        assert [int(key.rsplit("_", 1)[1]) for key in scores if key.startswith(f"{name}_at_")] == cutoffs


def test_tasks_of_r2med_have_the_name_that_mteb_gives_them():
    task = replace(ALPHA, name="MedXpertQA-Exam", suite="R2MED")
    content = mteb_result(record(), task, result("first", task, {"q1": "d1"}))

    assert content["task_name"] == "R2MEDMedXpertQAExamRetrieval"


def test_an_export_is_laid_out_as_mtebs_cache_is(tmp_path):
    written = export_mteb(record(), tmp_path)

    assert sorted(path.relative_to(tmp_path).parts[:2] for path in written) == [
        ("results", "r2med-ray__first"), ("results", "r2med-ray__first"),
        ("results", "r2med-ray__second"), ("results", "r2med-ray__second"),
    ]  # fmt: skip
    assert [path.name for path in written] == ["Alpha.json", "Beta.json", "Alpha.json", "Beta.json"]
    for path in written:
        meta = json.loads(path.with_name("model_meta.json").read_text())
        assert (meta["name"], meta["revision"]) == (path.parts[-3].replace("__", "/"), path.parts[-2])


def test_other_settings_of_a_system_are_another_revision(tmp_path):
    changed = replace(FIRST, settings={"bm25": {"k1": 1.2}})

    before = export_mteb(record(), tmp_path)
    after = export_mteb(record(systems=[changed, SECOND]), tmp_path)

    assert before[0].parent != after[0].parent
    assert before[2].parent == after[2].parent
    assert all(path.is_file() for path in (*before, *after))
