"""A report replaces an earlier report and nothing else."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.reporting.output_folder import require_replaceable
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import write_report
from tests.unit.reporting_records import FIRST, RESULTS, files, record


def test_an_earlier_report_is_replaced(tmp_path):
    write_report(summarise(record()), tmp_path / "results")
    output = write_report(summarise(record(systems=[FIRST], results=RESULTS[:2])), tmp_path / "results")

    with (output / "leaderboard.csv").open(newline="") as stream:
        assert [row["System"] for row in csv.DictReader(stream)] == ["first"]
    assert not (output / "runs/second").exists()
    assert list(tmp_path.iterdir()) == [output]


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(ConfigError, match=r"other files in it, e.g. 'thesis\.tex'"):
        write_report(summarise(record()), tmp_path)
    assert files(tmp_path) == {"thesis.tex": b"years of work"}


def test_a_note_inside_an_earlier_report_is_not_lost(tmp_path):
    write_report(summarise(record()), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(ConfigError, match=r"'notes\.txt' is no part of a report"):
        require_replaceable(tmp_path, "greek")


def test_a_manifest_of_somebody_else_makes_no_report(tmp_path):
    (tmp_path / "manifest.json").write_text('{"format": "docker"}')

    with pytest.raises(ConfigError, match="other files"):
        require_replaceable(tmp_path, "greek")


def test_the_report_of_another_benchmark_is_left_alone(tmp_path):
    output = write_report(summarise(record()), tmp_path / "results")
    before = files(output)

    with pytest.raises(ConfigError, match=r"report of benchmark 'greek', which that of 'latin' would .*`--output`"):
        write_report(summarise(record(name="latin")), output)
    assert files(output) == before
    require_replaceable(output, "greek")


@pytest.mark.parametrize("place", ["thesis.tex", "thesis.tex/results", "thesis.tex/a/b"])
def test_a_place_at_or_below_a_file_is_refused_before_anything_is_computed(tmp_path, place):
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(ConfigError, match=r"thesis\.tex.* is a file; expected a folder"):
        require_replaceable(tmp_path / place, "greek")


def test_a_place_that_can_not_be_written_to_is_refused():
    # No user can make folders there, not even root.
    with pytest.raises(ConfigError, match=r"output /proc/sys: can't be written to .*; name another folder"):
        require_replaceable(Path("/proc/sys/results"), "greek")


def test_a_place_that_is_looked_at_stays_as_it_is(tmp_path):
    require_replaceable(tmp_path / "a" / "results", "greek")

    assert not list(tmp_path.iterdir())


def test_a_file_is_no_place_for_a_report(tmp_path):
    (tmp_path / "results").write_text("")

    with pytest.raises(ConfigError, match="this is a file"):
        write_report(summarise(record()), tmp_path / "results")


def test_a_report_that_can_not_be_finished_leaves_the_earlier_one(tmp_path):
    output = write_report(summarise(record()), tmp_path / "results")
    before = files(output)
    unwritable = replace(RESULTS[0], run=replace(RESULTS[0].run, tag="two words"))

    with pytest.raises(DataError, match="two words"):
        write_report(summarise(record(results=[unwritable, *RESULTS[1:]])), output)
    assert files(output) == before
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
