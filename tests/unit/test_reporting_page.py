"""The page says what it should, loads nothing, runs no foreign text, and is sorted in a browser."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.summary import summarise
from tests.unit.reporting_records import ALPHA, BETA, FIRST, RESULTS, SECOND, record

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = ["<script>alert(1)</script>", '"quoted" & co', "'><img src=x onerror=alert(1)>", "{{ 7 * 7 }}"]


class Page(HTMLParser):
    """A parsed page: its elements, its texts without styles and scripts, and the rows of its first table."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.heads: list[dict[str, str | None]] = []
        self.first_table: list[list[str]] = []
        self._open: list[str] = []
        self._tables = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._open.append(tag)
        self._tables += tag == "table"
        if self._tables == 1 and tag == "tr":
            self.first_table.append([])
        if self._tables == 1 and tag in ("th", "td"):
            self.first_table[-1].append("")
            if len(self.first_table) == 1:
                self.heads.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        while tag in self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self._open):
            self.texts.append(data)
            if self._tables == 1 and {"th", "td"} & set(self._open) and "small" not in self._open:
                self.first_table[-1][-1] = f"{self.first_table[-1][-1]} {data}".strip()


def test_the_leaderboard_shows_scores_on_a_scale_of_0_to_100():
    page = Page(render_page(summarise(record(baseline="second"))))

    assert page.first_table == [
        ["System", "Mean", "Alpha", "Beta", "Δ", "95% interval", "Unanswered", "Flagged"],
        ["first", "87.50", "75.00", "100.00", "+75.00", "–", "0", "2"],
        ["second", "12.50", "25.00", "0.00", "–", "–", "1", "0"],
    ]
    assert page.heads[1]["aria-sort"] == "descending"


def test_names_are_text_and_nothing_else():
    systems = [
        replace(FIRST, name=HOSTILE[0], description=HOSTILE[1], settings={HOSTILE[2]: HOSTILE[3]}),
        replace(SECOND, name=HOSTILE[2]),
    ]
    tasks = [replace(ALPHA, name=HOSTILE[1], warnings=(HOSTILE[0],), revision=HOSTILE[2]), BETA]
    results = [
        replace(
            result,
            system=systems[result.system == "second"].name,
            task=HOSTILE[1] if result.task == "Alpha" else "Beta",
        )
        for result in RESULTS
    ]
    html = render_page(
        summarise(record(name=HOSTILE[0], systems=systems, tasks=tasks, results=results, config={"x": HOSTILE[2]}))
    )
    page = Page(html)

    for name in HOSTILE[:3]:
        assert any(name in text for text in page.texts)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert " 49" not in "".join(page.texts)


def test_the_page_asks_nobody_for_anything():
    html = render_page(summarise(record(baseline="second")))
    page = Page(html)

    assert not {"link", "img", "iframe", "object"} & set(page.tags)
    assert not {"src", "href", "srcset", "action"} & {name for name, _ in page.attributes}
    assert not re.findall(r"url\(|@import|fetch\(|XMLHttpRequest|https?:", html)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'") in page.attributes


def test_every_part_of_the_record_is_shown():
    text = " ".join(Page(render_page(summarise(record()))).texts)

    for expected in ("abc123", "1,234", "6,170.0", "python 3.11.9", "2026-11-27T10:05:00+00:00", "q3", "- Alpha"):
        assert expected in text


def test_a_benchmark_without_results_has_a_page_too():
    text = " ".join(Page(render_page(summarise(record(results=())))).texts)

    assert "No result for first on Alpha, first on Beta, second on Alpha, second on Beta." in text


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_click_on_a_heading_sorts_the_table(tmp_path):
    third = replace(FIRST, name="third")
    alone = replace(
        RESULTS[0], system="third", evaluation=replace(RESULTS[0].evaluation, means={"RR": 0.9, "R@1": 1})
    )
    html = render_page(summarise(record(systems=[FIRST, SECOND, third], results=[*RESULTS, alone])))
    driver = "<script>const clicks = [1, 2, 0, 0];" + CLICK_AND_NOTE + "</script></body>"
    (tmp_path / "index.html").write_text(html.replace("</body>", driver), encoding="utf-8")

    notes = json.loads(dict(Page(_dom(tmp_path)).attributes)["data-notes"])

    assert notes == [
        # the lowest mean is first; `third` lacks a task, so it has no mean and stays last
        [["second", "first", "third"], [None, "ascending", None, None, None, None]],
        # on Alpha, `third` has 90, `first` 75 and `second` 25
        [["third", "first", "second"], [None, None, "descending", None, None, None]],
        [["first", "second", "third"], ["ascending", None, None, None, None, None]],
        [["third", "second", "first"], ["descending", None, None, None, None, None]],
    ]


CLICK_AND_NOTE = """
const table = document.querySelector(".leaderboard table");
document.body.dataset.notes = JSON.stringify(clicks.map((index) => {
  table.querySelectorAll("th button")[index].click();
  const names = [...table.tBodies[0].rows].map((row) => row.cells[0].dataset.value);
  return [names, [...table.tHead.rows[0].cells].map((head) => head.getAttribute("aria-sort"))];
}));
"""


def _dom(folder: Path) -> str:
    """Return the page as the browser has it after the page's scripts have run."""
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={folder / 'profile'}", "--dump-dom", (folder / "index.html").as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
