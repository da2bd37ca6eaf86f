"""MTEB's result files of every version are read, and other files are refused. These tests don't need mteb."""

import json
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.interop.mteb_import import known_tasks, measure_of, read_mteb_results
from r2med_ray.interop.mteb_tasks import R2MED_TASKS

TASK = "R2MEDBiologyRetrieval"
REVISION = "8b9fec2db9eda4b5742d03732213fbaee8169556"
FIGURES = {"ndcg_at_10": 0.12711, "recall_at_100": 0.5, "map_at_100": 0.1, "nauc_ndcg_at_10_max": -0.3}
SUBSET = {"hf_subset": "default", "languages": ["eng-Latn"], "main_score": 0.12711}


def result(**changes: Any) -> dict[str, Any]:
    """Return a result as mteb 1.38.20 wrote it."""
    values = {
        "dataset_revision": REVISION,
        "task_name": TASK,
        "mteb_version": "1.38.20",
        "scores": {"test": [FIGURES | SUBSET]},
        "evaluation_time": 12.5,
        "kg_co2_emissions": None,
    }
    return values | changes


def write(folder: Path, values: Any, model: str = "BAAI__bge-large-en-v1.5", revision: str = "d4aa") -> Path:
    path = folder / "results" / model / revision / f"{TASK}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(values if isinstance(values, str) else json.dumps(values))
    return path


NEWER = {"mteb_version": "2.18.1", "hit_rate_at_10": 0.25, "accuracy": 0.1}
AGES = {
    "1.38": (result(), {}),
    "2.x": (
        result(
            mteb_version="2.18.1",
            scores={"test": [FIGURES | SUBSET | NEWER]},
            date=1.7e9,
            evaluation_phases=[{"name": "Scoring", "start": 0.0, "end": 1.0, "split": "test", "subset": "default"}],
        ),
        {"Success@10": 0.25},
    ),
    "before 1.11": (
        {"mteb_dataset_name": TASK, "dataset_revision": REVISION, "test": {**FIGURES, "evaluation_time": 3.0}},
        {},
    ),
    "other spelling": (
        result(scores={"test": [{"NDCG@10": 0.12711, "Recall@100": 0.5, "MAP@100": 0.1, **SUBSET}]}),
        {},
    ),
}


@pytest.mark.parametrize(("values", "more"), AGES.values(), ids=AGES)
def test_every_age_gives_the_same_figures_in_our_spelling(tmp_path: Path, values: Any, more: Any) -> None:
    [read] = read_mteb_results(write(tmp_path, values))

    assert read.scores == {"nDCG@10": 0.12711, "R@100": 0.5, "AP@100": 0.1, **more}
    assert (read.task, read.dataset_revision) == ("Biology", REVISION)
    assert (read.model, read.revision) == ("BAAI/bge-large-en-v1.5", "d4aa")


def test_a_model_is_what_its_metadata_say(tmp_path: Path) -> None:
    path = write(tmp_path, result(), model="a__b")
    path.with_name("model_meta.json").write_text(json.dumps({"name": "a__b/c", "revision": "1"}))

    [read] = read_mteb_results(path)

    assert (read.model, read.revision) == ("a__b/c", "1")


def test_its_figures_are_rows_of_the_table_of_published_scores(tmp_path: Path) -> None:
    [read] = read_mteb_results(write(tmp_path, result()))
    first = read.published()[0]

    assert (first.family, first.system, first.task) == ("mteb", "BAAI/bge-large-en-v1.5", "Biology")
    assert (first.measure, first.value) == ("nDCG@10", 0.12711)
    assert first.source == "R2MEDBiologyRetrieval.json, mteb 1.38.20, model revision d4aa"


def test_a_folder_gives_the_files_of_the_tasks_and_no_others(tmp_path: Path) -> None:
    write(tmp_path, result(), model="b__b")
    other = write(tmp_path, result(), model="a__a")
    other.with_name("STS12.json").write_text("not even JSON")

    assert [read.model for read in read_mteb_results(tmp_path)] == ["a/a", "b/b"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("{", "not JSON"),
        ([1], "expected a JSON object, got list"),
        ({"scores": {}}, "no result of mteb"),
        (result(scores=[]), "expected `scores` by split, got list"),
        (result(scores=None), "expected `scores` by split, got NoneType"),
        (result(scores={"test": [{"ndcg_at_10": True}]}), "ndcg_at_10 is True"),
        (result(scores={"test": [{"ndcg_at_10": float("nan")}]}), "ndcg_at_10 is nan"),
        (result(scores={"test": [{"ndcg_at_0": 0.5}]}), "no retrieval measures"),
        (result(task_name="R2MEDBiolgyRetrieval"), "Did you mean 'R2MEDBiologyRetrieval'"),
        (result(scores={"dev": []}), "one subset in the split 'test'; it has dev"),
        (result(scores={"test": [SUBSET, SUBSET]}), "one subset in the split 'test'"),
        (result(scores={"test": [SUBSET]}), "no retrieval measures"),
        (result(scores={"test": [{"ndcg_at_10": 12.7}]}), "ndcg_at_10 is 12.7; expected a number from 0 to 1"),
        (result(scores={"test": [{"ndcg_at_10": None}]}), "ndcg_at_10 is None"),
    ],
)
def test_what_can_not_be_compared_is_refused_with_its_file(tmp_path: Path, values: Any, message: str) -> None:
    path = write(tmp_path, values)

    with pytest.raises(DataError, match=message) as caught:
        read_mteb_results(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_in_a_folder_a_file_is_of_the_task_that_it_is_named_after(tmp_path: Path) -> None:
    path = write(tmp_path, result(task_name="R2MEDBioinformaticsRetrieval"))

    assert [read.task for read in read_mteb_results(path)] == ["Bioinformatics"]
    with pytest.raises(
        DataError, match="it is a result of task 'R2MEDBioinformaticsRetrieval'; expected R2MEDBiologyRetrieval"
    ):
        read_mteb_results(tmp_path)


def test_two_files_of_one_result_are_refused(tmp_path: Path) -> None:
    for copy in ("a", "b"):
        write(tmp_path / copy, result())

    with pytest.raises(DataError, match=r"b/results/.* has 'BAAI/bge-large-en-v1.5' on Biology too"):
        read_mteb_results(tmp_path)


def test_metadata_without_a_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, result()).with_name("model_meta.json").write_text("{}")

    with pytest.raises(DataError, match=r"model_meta\.json: expected the model's `name`, got None"):
        read_mteb_results(tmp_path)


def test_a_place_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a file like R2MEDBiologyRetrieval.json"):
        read_mteb_results(tmp_path)
    with pytest.raises(ConfigError, match="no such file"):
        read_mteb_results(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    ("key", "measure"),
    [
        ("ndcg_at_10", "nDCG@10"),
        ("NDCG@10", "nDCG@10"),
        ("Hit_Rate@5", "Success@5"),
        ("nauc_ndcg_at_10_max", None),
        ("main_score", None),
        ("cos_sim_at_1", None),
    ],
)
def test_a_key_is_a_measure_or_nothing(key: str, measure: str | None) -> None:
    found = measure_of(key)

    assert (str(found) if found else None) == measure


def test_tasks_are_chosen_by_either_name() -> None:
    assert known_tasks(["MedQA-Diag", TASK], R2MED_TASKS) == {
        TASK: "Biology",
        "R2MEDMedQADiagRetrieval": "MedQA-Diag",
    }
    assert known_tasks([], R2MED_TASKS) == R2MED_TASKS
    with pytest.raises(ConfigError, match=r"unknown task 'Biolgy'. Did you mean 'Biology'"):
        known_tasks(["Biolgy"], R2MED_TASKS)
