"""Plots are vectors: what is drawn is found again in the SVG, and the same figures give the same bytes."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.errors import ConfigError
from r2med_ray.reporting.plots import plot_systems
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import write_report
from tests.unit.reporting_records import record


def texts(path: Path) -> list[str]:
    """Return the texts of an SVG file."""
    return [node.text or "" for node in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture
def report(tmp_path: Path) -> str:
    return str(write_report(summarise(record(baseline="second", name="gr$ek")), tmp_path / "report"))


def test_systems_are_drawn_by_name_and_the_axis_says_what_is_measured(report: str, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["plot", report, str(tmp_path / "a.svg")])

    assert shown.stdout.strip() == str(tmp_path / "a.svg")
    assert {"first", "RR minus second, 95 % interval"} <= set(texts(tmp_path / "a.svg"))
    assert "second" not in texts(tmp_path / "a.svg")  # the baseline is the line at 0
    assert b"<image" not in (tmp_path / "a.svg").read_bytes()


def test_the_gain_of_each_query_is_a_bar(report: str, tmp_path: Path) -> None:
    arguments = ["plot", report, str(tmp_path / "a.svg"), "--system", "second", "--system", "first"]
    assert CliRunner().invoke(app, arguments).exit_code == 0

    assert {"3 queries, sorted", "RR: first minus second"} <= set(texts(tmp_path / "a.svg"))
    # one bar for each of the three queries, all of which gain
    assert len(re.findall(r"fill: #0072b2", (tmp_path / "a.svg").read_text())) == 3


@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_the_same_figures_give_the_same_bytes(ending: str, report: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert CliRunner().invoke(app, ["plot", report, str(tmp_path / f"{name}.{ending}")]).exit_code == 0

    first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("a", "b"))
    assert first == second
    assert first.startswith(b"%PDF" if ending == "pdf" else b"<?xml")


@pytest.mark.parametrize(
    ("name", "message"), [("a.gif", r"ends in .svg, .pdf or .png"), ("no/a.svg", "there is no folder")]
)
def test_a_file_that_can_not_be_written_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        plot_systems(summarise(record()), tmp_path / name)
