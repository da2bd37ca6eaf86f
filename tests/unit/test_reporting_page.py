"""The page says what it should without its script, loads nothing, and runs no foreign text."""

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

from r2med_ray.reporting.page import MOST_BARS, place_of, render_page
from r2med_ray.reporting.part_records import ModelRecord
from r2med_ray.reporting.rewriting_gains import rewriting_gains
from r2med_ray.reporting.summary import summarise
from tests.unit.reporting_records import ALPHA, BETA, FIRST, RESULTS, SECOND, record, result

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
        ["System", "Mean", "Δ", "95% interval", "Alpha", "Beta", "Unanswered", "Flagged"],
        ["first", "87.50", "+75.00", "–", "75.00", "100.00", "0", "2"],
        ["second", "12.50", "–", "–", "25.00", "0.00", "1", "0"],
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
    assert page.tags.count("script") == 2  # the page's own, and its data, which no browser runs
    assert "img" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert " 49" not in "".join(page.texts)


def test_the_page_asks_nobody_for_anything():
    html = render_page(summarise(record(baseline="second")))
    page = Page(html)

    assert not {"link", "img", "iframe", "object"} & set(page.tags)
    assert not {"src", "href", "srcset", "action"} & {name for name, _ in page.attributes}
    assert not re.findall(r"url\(|@import|fetch\(|XMLHttpRequest", html)
    assert (
        "content",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'self' file:",
    ) in page.attributes


def test_every_part_of_the_record_is_shown():
    text = " ".join(Page(render_page(summarise(record()))).texts)

    for expected in ("abc123", "1,234", "6,170.0", "python 3.11.9", "2026-11-27T10:05:00+00:00", "- Alpha"):
        assert expected in text


def test_a_benchmark_without_results_has_a_page_too():
    text = " ".join(Page(render_page(summarise(record(results=())))).texts)

    assert "No result for first on Alpha, first on Beta, second on Alpha, second on Beta." in text


def test_models_are_linked_to_the_hub_and_counted_over_systems():
    model = ModelRecord(
        part="retriever", name="e5", model="org/e5", revision="a" * 40, billions=0.3, dimension=768, license="mit",
        on_hub=True,
    )  # fmt: skip
    own = ModelRecord(part="reranker", name="mine", model="./folder")
    systems = [replace(FIRST, models=(model, own)), replace(SECOND, models=(model,))]

    page = Page(render_page(summarise(record(systems=systems))))

    assert [value for name, value in page.attributes if name == "href"] == [
        f"https://huggingface.co/org/e5/tree/{'a' * 40}"
    ]
    assert [text for text in page.texts if text in ("org/", "e5")][-2:] == ["org/", "e5"]


def test_a_hundred_systems_fold_the_bars_beyond_the_first():
    systems = [replace(FIRST, name=f"s{number}") for number in range(MOST_BARS + 3)]
    results = [result(system.name, ALPHA, {"q1": "d1"}) for system in systems]

    text = " ".join(Page(render_page(summarise(record(systems=systems, results=results, tasks=[ALPHA])))).texts)

    assert "3 more" in text


def test_keys_of_counts_are_headings_in_words():
    tasks = [replace(ALPHA, counts={"queries_without_qrels": 4}), BETA]

    assert "Queries without qrels" in " ".join(Page(render_page(summarise(record(tasks=tasks)))).texts)


def test_a_difference_is_drawn_on_a_square_root_scale_that_has_zero_in_it():
    # roots of −0.04, 0 and 0.09 are −0.2, 0 and 0.3: of 120 units over 0.5, zero is 48 from the left
    assert [place_of(value, (-0.04, 0.09)) for value in (-0.04, 0.0, 0.01, 0.09)] == [
        "-60.0",
        "-12.0",
        "12.0",
        "60.0",
    ]


def test_a_gain_of_rewriting_is_shown_beside_the_same_system_without_it():
    plain = {"name": "second", "retriever": "bm25", "rewriter": None}
    config = {"systems": [{**plain, "name": "first", "rewriter": {"method": "hyde"}}, plain]}

    columns = rewriting_gains(summarise(record(config=config)))

    # first has 75 and 100, second 25 and 0
    assert [[column.title, *column.texts] for column in columns] == [
        ["With rewriting", "first"],
        ["Without", "second"],
        ["Mean", "+75.00"],
        ["Alpha", "+50.00"],
        ["Beta", "+100.00"],
    ]
