"""A report at a URI replaces an earlier report and nothing else, and is whole or no report."""

from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.reporting.report_places import COMING, require_replaceable_at
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import load_results, write_report, write_report_to
from tests.unit.reporting_records import FIRST, RESULTS, files, record


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"file://{tmp_path}/results"


def test_a_report_at_a_uri_has_the_files_of_a_local_one_and_is_read_back(tmp_path: Path, uri: str) -> None:
    write_report(summarise(record()), tmp_path / "local")

    assert write_report_to(summarise(record()), uri) == uri
    assert files(tmp_path / "results") == files(tmp_path / "local")
    assert load_results(uri) == load_results(tmp_path / "local")


def test_an_earlier_report_at_a_uri_is_replaced(tmp_path: Path, uri: str) -> None:
    write_report_to(summarise(record()), uri)
    write_report_to(summarise(record(systems=[FIRST], results=RESULTS[:2])), uri)

    assert not (tmp_path / "results" / "runs" / "second").exists()
    assert [system.name for system in load_results(uri).systems] == ["first"]


def test_other_things_at_a_uri_are_left_alone(tmp_path: Path, uri: str) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"other files in it, e.g. 'thesis\.tex'"):
        write_report_to(summarise(record()), uri)

    assert files(tmp_path / "results") == {"thesis.tex": b"years of work"}


def test_a_report_of_another_benchmark_at_a_uri_is_not_replaced(uri: str) -> None:
    write_report_to(summarise(record()), uri)

    with pytest.raises(ConfigError, match="which that of 'latin' would replace"):
        require_replaceable_at(uri, "latin")
    require_replaceable_at(uri, record().name)


def test_a_note_inside_a_report_at_a_uri_is_not_lost(tmp_path: Path, uri: str) -> None:
    write_report_to(summarise(record()), uri)
    (tmp_path / "results" / "notes.txt").write_text("mine")

    with pytest.raises(ConfigError, match=r"'notes\.txt' is no part of a report"):
        require_replaceable_at(uri, record().name)


@pytest.mark.parametrize("left", ['{"format": "r2med_ray report 1", "name": "greek"}', "", '{"format"'])
def test_what_a_killed_upload_left_is_no_report_and_may_be_replaced(tmp_path: Path, uri: str, left: str) -> None:
    folder = tmp_path / "results"
    (folder / "runs").mkdir(parents=True)
    (folder / "runs" / "half.trec").write_text("q Q0")
    (folder / COMING).write_text(left)
    with pytest.raises(DataError, match="is no report"):
        load_results(uri)
    write_report_to(summarise(record()), uri)

    assert load_results(uri).name == record().name == "greek"
    assert not (folder / COMING).exists()
    assert not (folder / "runs" / "half.trec").exists()


def test_the_check_leaves_nothing_behind(tmp_path: Path, uri: str) -> None:
    require_replaceable_at(uri, "greek")

    assert files(tmp_path / "results") == {}


def test_an_output_that_can_not_be_reached_is_refused_without_its_secret() -> None:
    output = "s3://AKID0001:hush-hush@bucket/a?scheme=http&endpoint_override=127.0.0.1:9&region=x"
    with pytest.raises(ConfigError, match=r"^output 's3://bucket/a\?.*' can't be ") as refused:
        require_replaceable_at(output, "greek")

    assert "hush" not in str(refused.value)
