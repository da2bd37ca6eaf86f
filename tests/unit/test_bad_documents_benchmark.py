"""`on_bad_document: skip` in a benchmark file: counted in the report, its notes and its manifest, in every run."""

import json
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.cuts import Cuts
from r2med_ray.errors import StageError
from r2med_ray.reporting.notes import reading_notes, warnings
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.run_details import result_columns
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import resolve
from tests.failing_models import CountingEncoder, LettersEncoder
from tests.unit.tasks import TEXTS, beir_folder, run_in

# d1 has no tokens and d3 raises an error. d0, the relevant document, is fine.
BAD = (TEXTS[0], " ", TEXTS[2], "boom", *TEXTS[4:])


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    """A benchmark of one encoder and BM25 over a corpus with two bad documents."""
    models = tmp_path / "models.yaml"
    row = {"name": "letters", "class": f"tests.failing_models.{LettersEncoder.__name__}", "max_length": 8}
    models.write_text(json.dumps({"encoders": [row]}))
    folder = beir_folder(tmp_path / "collection", texts=BAD)
    return {
        "name": "bad",
        "tasks": [{"path": str(folder), "layout": "beir", "name": "Mine"}],
        "systems": [{"name": "own", "retriever": "letters"}, {"name": "words", "retriever": "bm25"}],
        "models": str(models),
        "on_bad_document": "skip",
    }


def run(values: dict[str, Any], folder: Path) -> BenchmarkRecord:
    return run_in(folder, resolve(parse_config(values)))


def test_what_is_left_out_is_counted_in_the_report_its_notes_and_its_manifest(
    values: dict[str, Any], tmp_path: Path
) -> None:
    first = run(values, tmp_path)
    again = run(values, tmp_path)

    assert [result.num_left_out for result in first.results] == [2, 0]
    assert first.results[0].left_out["letters"].keys() == {"d1", "d3"}
    assert [result.left_out for result in again.results] == [result.left_out for result in first.results]
    assert [result.run for result in again.results] == [result.run for result in first.results]
    [note] = [note for note in warnings(first) if "encoded" in note]
    assert note.startswith("letters on Mine: documents that can't be encoded (2, of them relevant 0) are not in its ")
    assert "d1 (" in note
    assert " and 1 more. The manifest lists them." in note
    assert [note for note in reading_notes(first) if note.startswith("own: ")] == [
        "own: documents left out of an index (2)."
    ]  # all five documents of its index are ranked, which is as many as can be
    [column] = [column for column in result_columns(first) if column.title == "Left out"]
    assert list(column.values) == [2, 0]
    report = write_report(summarise(first), tmp_path / "report")
    manifest = json.loads((report / "manifest.json").read_text())
    assert manifest["results"][0]["left_out"]["letters"].keys() == {"d1", "d3"}
    assert load_results(report).results[0].left_out == first.results[0].left_out
    assert "can't be encoded (2" in (report / "leaderboard.md").read_text().replace("\\", "")


def test_the_documents_that_are_left_out_are_in_no_ranking(values: dict[str, Any], tmp_path: Path) -> None:
    found = {hit.doc_id for ranking in run(values, tmp_path).results[0].run.rankings.values() for hit in ranking}

    assert found == {"d0", "d2", "d4", "d5", "d6"}


def test_what_was_cut_off_the_documents_that_are_left_is_known(values: dict[str, Any], tmp_path: Path) -> None:
    models = Path(values["models"])
    models.write_text(models.read_text().replace(LettersEncoder.__name__, CountingEncoder.__name__))

    [cuts] = run(values, tmp_path).results[0].cuts

    # d0 to d6 without d1 and d3: abc fever, aab rash, fed, gag cough, cafe
    assert cuts.document == Cuts(texts=5, tokens=8, lengths=(8,))


def test_without_the_key_the_first_bad_document_ends_the_benchmark(values: dict[str, Any], tmp_path: Path) -> None:
    del values["on_bad_document"]

    with pytest.raises(StageError, match=r"^encode failed on Mine, shard 0: .*'d1'.*has no tokens"):
        run(values, tmp_path)
