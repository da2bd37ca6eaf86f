"""The report's page in Chromium, opened from a disk: what a reader can choose, follow and pass on; what can't run.

Alpha   q2 → d2, q10 → d1, q1 → d1      Beta   q3 → d3, d4, d5
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page

from r2med_ray.evaluation.recall_by_depth import recall_by_depth
from r2med_ray.reporting.part_records import ModelRecord
from r2med_ray.reporting.record import SystemRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.texts import Question, TaskTexts, Written
from r2med_ray.reporting.write import write_report
from r2med_ray.sentences import Told
from tests.integration.chromium import chromium, needs_chromium, serious
from tests.unit.reporting_records import ALPHA, BETA, record, result

pytestmark = needs_chromium

HOSTILE = (
    "</script><img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>\u202e\x00"
    + "w" * 9999
)
QRELS = {"q2": {"d2": 1}, "q10": {"d1": 1}, "q1": {"d1": 1}}
MODELS = (ModelRecord(part="retriever", name="e5", model="org/e5", billions=0.3, dimension=768, on_hub=True),)
SYSTEMS = (
    SystemRecord(name="bm25+reasoning", description="hyde/r1 → bm25", models=MODELS),
    SystemRecord(name="bm25", description="bm25", models=MODELS),
    SystemRecord(name="minilm", description="all-MiniLM-L6-v2"),
)
RANKED = {
    "bm25+reasoning": [{"q2": "d2", "q10": "d1", "q1": "x d1"}, {"q3": "d3 d4 d5"}],
    "bm25": [{"q2": "x d2", "q10": "x y d1", "q1": "d1"}, {"q3": "x d3"}],
    "minilm": [{"q2": "x", "q10": "x", "q1": "x"}, {"q3": "x"}],
}


def made(folder: Path, lacking: tuple[str, str] | None = None) -> Path:
    """Write the report, without the result of one system on one task if that is given."""
    texts = TaskTexts(
        questions={
            "q2": Question(text=HOSTILE, body_system="skin"),
            "q10": Question(text="Why the rash?", answer="rubella", body_system="skin"),
            "q1": Question(text="Why the cough?", body_system="lung"),
        },
        passages={
            "d1": "Rubella brings a rash.",
            "d2": HOSTILE,
            "x": "🦠 Nothing here. Nor a rash.",
            "y": "Rashes differ.",
        },
        written={"bm25+reasoning": {"q10": Written(texts=("It is rubella.",), reasoning=("A virus, I think.",))}},
        terms={"bm25": {"q10": {"d1": {"rash": 1.5}}}},
        sentences={
            "minilm": Told("minilm-tokens", {"q10": {"x": (0.25, 0.5)}}),
            "bm25+reasoning": Told("colbert", {}, "the model is not here"),
        },
    )
    tasks = [replace(ALPHA, qrels=QRELS, texts=texts), BETA]
    results = [
        result(name, task, answers, seconds={"search": 1.0})
        for name, of_tasks in RANKED.items()
        for task, answers in zip(tasks, of_tasks, strict=True)
        if (name, task.name) != lacking
    ]
    judged = {task.name: task.qrels for task in tasks}
    results = [replace(each, recall_by_depth=recall_by_depth(each.run, judged[each.task], 100)) for each in results]
    return write_report(summarise(record(tasks=tasks, systems=SYSTEMS, results=results, baseline="bm25")), folder)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    return (made(tmp_path_factory.mktemp("page") / "report") / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that says nothing on the console and asks for nothing but files."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda request: None if request.url.startswith("file:") else wrong.append(request.url))
    yield opened
    opened.close()
    assert not wrong


def board(page: Page) -> list[str]:
    """Return the systems of the leaderboard that are shown, in their order."""
    return [row.get_attribute("data-value") or "" for row in page.locator(".leaderboard tbody th:visible").all()]


def column(page: Page, key: str) -> list[str]:
    place = page.evaluate(
        "k => [...document.querySelectorAll('.leaderboard thead th')].findIndex(e => e.dataset.key === k)", key
    )
    return page.locator(f".leaderboard tbody tr:visible > :nth-child({place + 1}):visible").all_inner_texts()


def queries(page: Page) -> Locator:
    """Go to the list of queries, which is read when it comes near, and return the links in it."""
    page.locator("#queries").scroll_into_view_if_needed()
    links = page.locator("#queries tbody a")
    links.first.wait_for()
    return links


def test_a_heading_sorts_up_and_down_and_gives_the_order_of_the_file_back(page: Page, report: str) -> None:
    page.goto(report)
    in_file = ["bm25+reasoning", "bm25", "minilm"]
    assert board(page) == in_file

    orders = []
    for _ in range(3):
        page.get_by_role("button", name="System", exact=True).first.click()
        orders.append(board(page))

    assert orders == [["bm25", "bm25+reasoning", "minilm"], ["minilm", "bm25+reasoning", "bm25"], in_file]


def test_ids_of_queries_sort_by_their_numbers(page: Page, report: str) -> None:
    page.goto(report)
    ids = queries(page)
    assert ids.all_inner_texts() == ["q2", "q10", "q1"]  # as in the file

    page.locator("#queries").get_by_role("button", name="Query").click()

    assert ids.all_inner_texts() == ["q1", "q2", "q10"]


def test_systems_are_found_by_the_words_of_their_name_and_parts(page: Page, report: str) -> None:
    page.goto(report)

    page.get_by_label("Find systems").fill("HYDE bm25")

    assert board(page) == ["bm25+reasoning"]
    assert page.get_by_text("1 of 3 systems").is_visible()


def test_tasks_measure_and_baseline_can_be_chosen(page: Page, report: str) -> None:
    page.goto(report)
    tools = page.locator("#tools")
    tools.get_by_label("Baseline").select_option("minilm")
    tools.get_by_label("Measure").select_option("R@1")
    tools.get_by_text("Tasks", exact=True).click()
    tools.get_by_label("Beta").uncheck()
    tools.get_by_label("Ranks").check()

    # R@1 on Alpha: 2 of 3 queries, 1 of 3, and none
    assert column(page, "mean") == ["66.67\n#1", "33.33\n#2", "0.00\n#3"]
    assert column(page, "difference") == ["+66.67", "+33.33", "–"]
    assert column(page, "interval") == ["–", "–", "–"]
    assert column(page, "task 1") == []
    assert page.get_by_text("R@1, mean over 1 of 2 tasks, Δ to minilm.").is_visible()

    tools.get_by_label("Beta").check()
    tools.get_by_label("Measure").select_option("RR")
    tools.get_by_label("Baseline").select_option("bm25")
    tools.get_by_label("Ranks").uncheck()

    # the benchmark's own choice: the mean of Alpha, (1 + 1 + 1/2) / 3, and Beta, 1
    assert column(page, "mean")[0] == "91.67"
    assert "p " in column(page, "difference")[0]


def test_a_query_shows_what_was_asked_found_and_written_and_why(page: Page, report: str) -> None:
    page.goto(report)
    queries(page).get_by_text("q10").click()
    page.get_by_role("heading", name="Alpha, query q10").wait_for()

    assert page.locator("blockquote").inner_text() == "Why the rash?"
    assert page.get_by_text("rubella", exact=True).is_visible()
    left, right = page.get_by_role("region", name="System A"), page.get_by_role("region", name="System B")
    assert left.get_by_label("System A").evaluate("e => e.selectedOptions[0].text") == "bm25"
    # bm25 has the relevant document third, because of `rash`
    assert left.locator(".id").all_inner_texts() == ["x", "y", "d1"]
    assert left.locator(".relevant .id").all_inner_texts() == ["d1"]
    assert left.locator(".relevant .terms .tag").all_inner_texts() == ["rash 1.5"]
    assert left.locator("mark").all_inner_texts() == ["rash"]
    assert right.get_by_text("It is rubella.").is_visible()
    assert not right.get_by_text("A virus, I think.").is_visible()
    right.get_by_text("Its reasoning").click()
    assert right.get_by_text("A virus, I think.").is_visible()
    ranks = page.get_by_role("region", name="Ranks of the relevant documents").locator("tbody tr")
    assert [row.inner_text().split() for row in ranks.all()] == [
        ["bm25+reasoning", "100.00", "1"], ["bm25", "33.33", "3"], ["minilm", "0.00", "–"],
    ]  # fmt: skip


def test_an_address_leads_to_a_query_and_two_systems_and_to_their_comparison(page: Page, report: str) -> None:
    page.goto(f"{report}#query/Alpha/q1/minilm/bm25%2Breasoning")
    page.get_by_role("heading", name="Alpha, query q1").wait_for()
    assert page.locator(".side select").evaluate_all("all => all.map(e => e.selectedOptions[0].text)") == [
        "minilm", "bm25+reasoning",
    ]  # fmt: skip

    page.get_by_role("link", name="Compare the two systems").click()

    page.get_by_role("heading", name="minilm and bm25+reasoning").wait_for()
    assert page.url.endswith("#pair/minilm/bm25%2Breasoning/Alpha/RR")
    page.go_back()
    page.get_by_role("heading", name="Alpha, query q1").wait_for()


def test_two_systems_have_wins_losses_and_the_queries_that_moved_most(page: Page, report: str) -> None:
    page.goto(f"{report}#pair/bm25/bm25%2Breasoning")
    rows = page.get_by_role("region", name="Wins and losses").locator("tbody tr")
    rows.first.wait_for()

    # RR of bm25: q2 1/2, q10 1/3, q1 1; Beta 1/2. With reasoning: 1, 1, 1/2; Beta 1.
    assert [row.inner_text().split("\t") for row in rows.all()] == [
        ["Mean over tasks", "55.56", "91.67", "+36.11", "3", "0", "1"],
        ["Alpha", "61.11", "83.33", "+22.22", "2", "0", "1"],
        ["Beta", "50.00", "100.00", "+50.00", "1", "0", "0"],
    ]
    assert page.get_by_role("region", name="B gains most").locator("tbody a").first.inner_text() == "Alpha, q10"
    assert page.get_by_role("region", name="B loses most").locator("tbody a").all_inner_texts() == ["Alpha, q1"]


def test_hostile_texts_are_shown_and_never_run(page: Page, report: str) -> None:
    page.goto(f"{report}#query/Alpha/q2")
    page.get_by_role("heading", name="Alpha, query q2").wait_for()

    assert page.locator("blockquote").inner_text().startswith("</script><img src=x onerror=")
    assert page.locator("img").count() == 0
    assert page.title() != "run"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_sentences_that_make_a_score_are_marked_and_named_with_their_shares(page: Page, report: str) -> None:
    page.goto(f"{report}#query/Alpha/q10/minilm/bm25%2Breasoning")
    left, right = (page.get_by_role("region", name=f"System {side}") for side in "AB")
    left.wait_for()

    marked = ["🦠 Nothing here. [sentence 1: 25 %]", "Nor a rash. [sentence 2: 50 %]"]
    assert left.locator(".sentence").all_inner_texts() == marked
    assert left.locator(".terms").inner_text().startswith("Sentences, by minilm-tokens:")
    assert left.locator(".terms .tag").all_inner_texts() == ["sentence 2 50 %", "sentence 1 25 %"]
    assert "The sentences that colbert finds are not known: the model is not here" in right.inner_text()
    assert right.locator(".sentence").count() == 0


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize(
    "address", ["", "#query/Alpha/q10", "#query/Alpha/q10/minilm/bm25", "#pair/bm25/bm25%2Breasoning"]
)
def test_axe_finds_nothing_serious(browser: Browser, report: str, address: str, colours: Any) -> None:
    page = browser.new_page(color_scheme=colours)
    page.goto(report + address)
    page.locator(".scroll table tbody tr").first.wait_for(state="attached")

    found = serious(page)
    page.close()

    assert found == []


def test_on_a_phone_the_difference_is_in_sight_and_names_break_at_their_signs(page: Page, report: str) -> None:
    page.set_viewport_size({"width": 375, "height": 800})
    page.goto(report)

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    head = page.locator("th[data-key=difference]").bounding_box()
    assert head is not None
    assert head["x"] + head["width"] <= 375
    name = page.locator(".leaderboard tbody th").first
    lines = name.evaluate(
        """cell => { const range = new Range(); const tops = new Map();
          for (const node of cell.childNodes) if (node.nodeType === 3) for (let at = 0; at < node.length; at += 1) {
            range.setStart(node, at); range.setEnd(node, at + 1);
            const box = range.getBoundingClientRect();
            if (box.width) tops.set(box.top, (tops.get(box.top) ?? "") + node.data[at]);
          } return [...tops.values()].map((line) => line.trim()).filter(Boolean); }"""
    )
    assert lines in (["bm25+reasoning"], ["bm25+", "reasoning"])


def test_the_keyboard_alone_sorts_and_reads_a_query(page: Page, report: str) -> None:
    page.goto(report)
    page.get_by_role("button", name="Mean").first.focus()
    page.keyboard.press("Enter")
    assert board(page) == ["minilm", "bm25", "bm25+reasoning"]

    queries(page).first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Alpha, query q2").wait_for()

    assert page.evaluate("document.activeElement.textContent") == "Alpha, query q2"


def test_on_paper_there_are_no_tools_and_no_dark(page: Page, report: str) -> None:
    page.goto(report)
    page.emulate_media(media="print", color_scheme="dark")

    assert not page.locator("#tools").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_without_the_folder_beside_it_the_page_says_what_is_missing(browser: Browser, tmp_path: Path) -> None:
    folder = made(tmp_path / "report")
    shutil.rmtree(folder / "queries")
    page = browser.new_page()  # Chromium itself writes to the console that a file is missing
    page.goto((folder / "index.html").as_uri() + "#query/Alpha/q1")

    page.get_by_role("alert").wait_for()

    assert "queries/Alpha.js can't be read" in page.get_by_role("alert").inner_text()


def test_recall_and_cost_are_drawn_for_the_systems_that_are_found(page: Page, report: str) -> None:
    page.goto(report)
    assert page.locator("#recall path").count() == 3
    assert page.locator("#costs svg a").count() == 3

    page.get_by_label("Find systems").fill("minilm")

    assert page.locator("#recall path").count() == 1
    assert page.locator("#costs svg a").get_attribute("href") == "#pair/bm25/minilm//RR"


def test_a_system_that_lacks_a_task_has_no_rank_and_no_recall_until_the_task_is_left_out(
    page: Page, tmp_path: Path
) -> None:
    page.goto((made(tmp_path / "report", lacking=("minilm", "Beta")) / "index.html").as_uri())
    ranks = page.locator(".leaderboard .rank")
    seen = [(ranks.all_inner_texts(), page.locator("#recall path").count())]
    page.locator("#tools").get_by_text("Tasks", exact=True).click()

    for _ in range(2):
        page.locator("#tools").get_by_label("Beta").click()
        seen.append((ranks.all_inner_texts(), page.locator("#recall path").count()))

    assert seen == [(["1", "2", ""], 2), (["1", "2", "3"], 3), (["1", "2", ""], 2)]
