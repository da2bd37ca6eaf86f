"""MTEB's figures are shown beside ours."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.evaluation.measures import Measure
from r2med_ray.interop.mteb_import import MtebResult, read_mteb_results
from r2med_ray.interop.mteb_table import import_table, mteb_table
from r2med_ray.reporting.mteb_results import export_mteb
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import write_report
from tests.unit.reporting_records import ALPHA, record, result

RR = Measure.parse("RR@10")


def theirs(model: str, task: str, value: float, revision: str = "r", dataset: str = "abc123") -> MtebResult:
    return MtebResult(
        path=Path(model, f"{task}.json"),
        model=model,
        revision=revision,
        task=task,
        dataset_revision=dataset,
        mteb_version=None,
        scores={"RR@10": value},
    )


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines() if line.startswith((" ours", " MTEB", "  ours", "  MTEB"))]


def test_our_systems_and_their_models_stand_in_one_table() -> None:
    found = [theirs("a/b", "Alpha", 0.5), theirs("a/b", "Beta", 0.25, dataset="def456"), theirs("a/c", "Alpha", 1.0)]
    table = mteb_table(found, RR, record())

    # `first` has (1 + 1/2) / 2 on Alpha and 1 on Beta; `second` has (1/2 + 0) / 2 on Alpha and 0 on Beta. a/c has no
    # Beta, so it has no mean.
    assert rows(table) == [
        ["ours", "first", "75.00", "100.00", "87.50"],
        ["ours", "second", "25.00", "0.00", "12.50"],
        ["MTEB", "a/b", "50.00", "25.00", "37.50"],
        ["MTEB", "a/c", "100.00", "–", "–"],
    ]
    assert "warning" not in table


def test_another_revision_and_absent_tasks_are_counted() -> None:
    found = [theirs("a/b", "Alpha", 0.5, dataset="old"), theirs("a/c", "Alpha", 0.5)]
    table = mteb_table(found, RR, record())

    assert "warning: 1 of 2 files are of another revision of their task" in table
    assert "a/b/Alpha.json: Alpha at old, ours at abc123" in table
    assert "warning: 1 of 2 tasks of ours are in none of the files: Beta" in table


def test_an_export_of_tasks_that_are_not_r2meds_says_what_is_expected(tmp_path: Path) -> None:
    [first, *_] = export_mteb(record(), tmp_path)

    expected = r"expected a file like R2MED\w+\.json; there are Alpha\.json, Beta\.json\. Tasks .* `--results FOLDER`"
    with pytest.raises(ConfigError, match=expected):
        import_table(tmp_path, [], None, "RR@10")
    with pytest.raises(DataError, match=r"it is a result of task 'Alpha'; expected R2MED.*`--results FOLDER`"):
        import_table(first, [], None, "RR@10")


def test_two_revisions_of_a_model_are_two_rows() -> None:
    table = mteb_table([theirs("a/b", "Alpha", 0.5, "r1"), theirs("a/b", "Alpha", 0.75, "r2")], RR)

    assert rows(table) == [["MTEB", "a/b@r1", "50.00", "50.00"], ["MTEB", "a/b@r2", "75.00", "75.00"]]


def test_what_we_export_comes_back_as_it_went_out(tmp_path: Path) -> None:
    biology = replace(ALPHA, name="Biology", suite="R2MED")
    ours = record(tasks=[biology], results=[result("first", biology, {"q1": "d1", "q2": "x d2"})])
    [path] = export_mteb(ours, tmp_path)

    [read] = read_mteb_results(tmp_path)
    assert (read.model, read.revision, read.task) == ("r2med-ray/first", path.parent.name, "Biology")
    # nDCG is 1 for q1 and 1/log2(3) = 0.63093 for q2. RR is 1 and 1/2.
    assert (read.scores["nDCG@10"], read.scores["RR@10"]) == (0.81546, 0.75)


def test_the_commands_lead_from_a_report_to_mtebs_files_and_back(tmp_path: Path) -> None:
    biology = replace(ALPHA, name="Biology", suite="R2MED")
    ours = record(tasks=[biology], results=[result("first", biology, {"q1": "d1", "q2": "x d2"})])
    report, exported = write_report(summarise(ours), tmp_path / "report"), tmp_path / "exported"

    written = CliRunner().invoke(app, ["mteb", "export", str(report), str(exported)], catch_exceptions=False)
    arguments = ["mteb", "import", str(exported), "--results", str(report), "--task", "Biology", "--measure", "RR@10"]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False)

    assert Path(written.stdout.strip()).name == "R2MEDBiologyRetrieval.json"
    # RR is 1 for q1 and 1/2 for q2. `second` was not run.
    assert rows(shown.stdout) == [
        ["ours", "first", "75.00", "75.00"],
        ["ours", "second", "–", "–"],
        ["MTEB", "r2med-ray/first", "75.00", "75.00"],
    ]
