"""Names of systems, tasks, queries and documents are foreign texts: a report shows them, and they do nothing."""

import csv
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from r2med_ray.reporting.record import BenchmarkRecord, TaskRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import load_results, write_report
from tests.unit.reporting_records import ALPHA, FIRST, SECOND, record, result

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img/src=x/onerror=alert(1)>',
    "[click](javascript:alert(1))",
    "![x](http://evil/x.png)",
    "</title></style><svg/onload=alert(1)>",
    "{{7*7}}${7*7}",
    "=HYPERLINK(http://evil)",
    "|a|`b`\\|",
)
ACTIVE = {"script", "img", "svg", "iframe", "object", "embed", "a", "form", "link", "base"}


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def hostile(name: str) -> BenchmarkRecord:
    """Return a record in which everything that has a name has this name."""
    task: TaskRecord = replace(ALPHA, name=name, suite=name, qrels={name: {name: 1}}, warnings=(name,), revision=name)
    system = replace(FIRST, name=name, description=name, settings={name: name}, differences=(name,))
    results = [
        result(
            system=name, task=task, answers={name: name}, left_out={name: {name: name}}, flagged={name: (name,)},
            unchanged=(name,), identical_ids=(name,), found_nothing={name: (name,)},
        ),
        result("second", task, {name: "d"}),
    ]  # fmt: skip
    return record(name=name, systems=[system, SECOND], tasks=[task], results=results, config={name: name})


@pytest.fixture(params=HOSTILE)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_report(summarise(hostile(request.param)), tmp_path / "report")


def test_the_page_has_the_tags_of_a_report_with_harmless_names(folder: Path, tmp_path: Path) -> None:
    harmless = write_report(summarise(hostile("name")), tmp_path / "harmless")
    expected, page = (Tags((each / "index.html").read_text()) for each in (harmless, folder))

    tags, expected_tags = ([tag for tag in each.tags if tag != "wbr"] for each in (page, expected))
    assert tags == expected_tags  # a name may have a `wbr` behind each of its signs
    assert page.handlers == []


def test_markdown_shows_names_and_makes_no_element_of_them(folder: Path, tmp_path: Path) -> None:
    read = MarkdownIt("commonmark", {"html": True}).enable("table")
    harmless = write_report(summarise(hostile("name")), tmp_path / "harmless")
    expected, page = (Tags(read.render((each / "leaderboard.md").read_text())) for each in (harmless, folder))

    assert not set(page.tags) & ACTIVE
    assert page.tags == expected.tags


def test_csv_has_no_formula_and_as_many_cells(folder: Path) -> None:
    head, *rows = csv.reader((folder / "leaderboard.csv").open(newline=""))

    assert len(rows) == 2
    assert all(len(row) == len(head) for row in rows)
    assert not [cell for row in [head, *rows] for cell in row if cell.startswith(("=", "@"))]


def test_every_file_lies_inside_the_report_and_reads_back(folder: Path) -> None:
    [task] = load_results(folder).tasks

    assert task.qrels == {task.name: {task.name: 1}}
    assert all(path.resolve().is_relative_to(folder) for path in folder.rglob("*"))
