"""NanoR2MED as a task: its six configs, its revision, its published counts."""

import json
from pathlib import Path

import pytest

from r2med_ray.corpus.catalog import TASKS, resolve_tasks, select_tasks
from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.nano import CharacterCounts
from r2med_ray.corpus.sources import DATA_FOLDER, TaskSource
from r2med_ray.errors import DataError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task
from tests.unit.nano_files import DENSE, DOCUMENTS, SPLIT, write_nano, write_table

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "nanor2med.json").read_text())
COMMIT = "0123456789" * 4


def load(source: TaskSource, tmp_path: Path, **options: int) -> Task:
    return load_task(source, ArtifactStore(str(tmp_path / "store")), **{"documents_per_shard": 3, **options})


def test_a_judgement_without_a_grade_is_1_and_a_row_may_name_several_documents(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    source = write_nano(folder, qrels=[("q1", ["d1", "d3"]), ("q2", ["d2"])])

    assert load(source, tmp_path).qrels == {"q1": {"d1": 1, "d3": 1}, "q2": {"d2": 1}}


def test_a_task_of_parts_equals_the_task_of_one_file(tmp_path: Path) -> None:
    one = write_nano(tmp_path / "one")
    cut = write_nano(tmp_path / "cut")
    (tmp_path / "cut" / "corpus" / f"{SPLIT}.parquet").unlink()
    rows = list(DOCUMENTS.items())
    for index, part in enumerate((rows[:1], rows[1:])):
        write_table(tmp_path / "cut" / "corpus" / f"{SPLIT}-0000{index}-of-00002.parquet", ["_id", "text"], part)

    whole, parted = load(one, tmp_path), load(cut, tmp_path)

    assert parted.corpus.digest == whole.corpus.digest
    assert parted.counts == whole.counts
    assert load(cut, tmp_path, shards=2).corpus.shards[0].num_rows == 2


def test_a_change_in_a_later_part_is_another_corpus(tmp_path: Path) -> None:
    source = write_nano(tmp_path / "set")
    (tmp_path / "set" / "corpus" / f"{SPLIT}.parquet").unlink()
    first, second = (tmp_path / "set" / "corpus" / f"{SPLIT}-0000{index}-of-00002.parquet" for index in (0, 1))
    write_table(first, ["_id", "text"], DOCUMENTS.items())
    write_table(second, ["_id", "text"], [("d5", "before")])
    before = load(source, tmp_path)
    write_table(second, ["_id", "text"], [("d5", "after")])

    assert load(source, tmp_path).corpus.digest != before.corpus.digest


def test_texts_that_are_empty_are_left_out_and_counted(tmp_path: Path) -> None:
    source = write_nano(
        tmp_path / "set", documents={**DOCUMENTS, "d5": "", "d6": " \n"}, queries={"q1": "a", "q2": ""}
    )

    task = load(source, tmp_path)

    assert task.counts["documents"] == 4
    assert [query.query_id for query in task.queries] == ["q1"]
    assert f"2 records of {SPLIT}.parquet have no text and were left out, e.g. 'd5', 'd6'" in task.warnings
    assert f"1 records of {SPLIT}.parquet have no text and were left out, e.g. 'q2'" in task.warnings


def test_integer_ids_become_text_in_all_three_files(tmp_path: Path) -> None:
    source = write_nano(tmp_path / "set", documents={7: "cat"}, queries={1: "cat"}, qrels=[(1, 7)])

    task = load(source, tmp_path)

    assert task.qrels == {"1": {"7": 1}}
    assert task.counts["unknown_documents"] == 0


def test_lists_that_come_along_are_known_by_name_and_safeguards_are_counted(tmp_path: Path) -> None:
    long = {"q1": [f"x{number}" for number in range(101)], "q2": [f"x{number}" for number in range(100)]}
    source = write_nano(tmp_path / "set", harrier_oss_v1_270m=DENSE, reranking_hybrid=long)

    task = load(source, tmp_path)

    assert set(task.ranked_lists) == {"dense", "reranking_hybrid"}
    assert task.counts["safeguards"] == 1
    assert any("1 of 3 lists of reranking_hybrid carry a positive at rank 101" in text for text in task.warnings)


def test_a_missing_config_is_named(tmp_path: Path) -> None:
    source = write_nano(tmp_path / "set")
    (tmp_path / "set" / "qrels" / f"{SPLIT}.parquet").unlink()

    with pytest.raises(DataError, match=rf"no qrels/{SPLIT}\.parquet or .*which the layout 'nano' needs"):
        load(source, tmp_path)


def test_without_a_revision_the_hub_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path))

    with pytest.raises(DataError, match=r"no revision of hakari-bench/NanoR2MED is known.*NanoR2MEDBiology@COMMIT"):
        resolve_tasks(["NanoR2MEDBiology"])


def test_a_revision_stands_behind_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = select_tasks([f"NanoR2MED/*@{COMMIT}"])
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path))
    with pytest.raises(DataError) as failure:
        resolve_tasks([f"NanoR2MEDBiology@{COMMIT}"], download=False)

    assert len(rows) == 8
    assert {row.revision for row in rows} == {COMMIT}
    assert f"--revision {COMMIT} --include '*/NanoR2MEDBiology*.parquet'" in str(failure.value)
    assert "$R2MED_DATA/NanoR2MED is of no known commit" in str(failure.value)


def test_all_splits_lie_in_one_local_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "NanoR2MED").mkdir()
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path))

    sources = resolve_tasks(["NanoR2MED/*"])

    assert {source.folder for source in sources} == {tmp_path / "NanoR2MED"}
    assert [source.split for source in sources] == list(GOLDEN["tasks"])


def test_the_catalogue_expects_the_published_counts() -> None:
    for name, published in GOLDEN["tasks"].items():
        counts = TASKS[name].counts
        assert (counts.queries, counts.qrels) == (published["queries"], published["positives"])
        assert (counts.rows, counts.documents) == (10_000, 10_000)


def test_character_counts_are_of_code_points() -> None:
    # The lengths are 2, 1 and 6, so the mean is 3 and the median 2.
    counts = CharacterCounts.of(["aβ", "𝕏", "abcdef"])

    assert (counts.shortest, counts.mean, counts.median, counts.longest) == (1, 3.0, 2, 6)
