"""The search page behind a real Ray Serve: rankings, limits, visitors who leave, and a real Chromium."""

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from email.message import Message
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from r2med_ray.benchmark import run_benchmark
from r2med_ray.evaluation.trec import read_run
from r2med_ray.live.job import served
from r2med_ray.live.preparing import prepare
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import write_report_to
from r2med_ray.settings.config_files import load_with
from r2med_ray.settings.pools import ClusterCapacity
from r2med_ray.systems import resolve
from r2med_ray.types import Query
from r2med_ray.workbench.bench import open_workbench
from tests.http_services import Held, Service, completions, stalling
from tests.integration.chromium import chromium, needs_chromium, serious
from tests.live_benchmarks import SYSTEMS, scripted, write_benchmark

pytestmark = [pytest.mark.ray, pytest.mark.serve, pytest.mark.timeout(1200)]

AT_ONCE, QUEUE = 2, 50
PATIENCE_MS = 120_000
"""Milliseconds that a page may take for anything."""

HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
HOSTILE_ID = "<img/src=x/onerror=document.title=1>"


class Site(NamedTuple):
    """A served page, the service of its language model, and the results of its benchmark."""

    url: str
    service: Service
    results: Path
    queries: tuple[Query, ...]

    def post(self, path: str = "api/search", **asked: Any) -> tuple[int, dict[str, str], Any]:
        """Ask a question; return status, headers and JSON."""
        request = urllib.request.Request(
            self.url + path, json.dumps(asked).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, _lower(answer.headers), json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, _lower(error.headers), json.load(error)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=300) as answer:
            return json.load(answer)


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def hostile_task(folder: Path) -> dict[str, str]:
    """Write a task whose id, passage and question would run if they were read as HTML."""
    folder.mkdir()
    files = {
        "corpus": {"id": HOSTILE_ID, "text": f"fever {HOSTILE} rash"},
        "query": {"id": "q", "text": f"fever {HOSTILE}"},
        "qrels": {"q_id": "q", "p_id": HOSTILE_ID, "score": 1},
    }
    for name, row in files.items():
        (folder / f"{name}.jsonl").write_text(json.dumps(row))
    return {"name": "Hostile", "path": str(folder)}


@pytest.fixture(scope="module")
def site(cluster: ClusterCapacity, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    limits = {"port": 0, "at_once": AT_ONCE, "queue": QUEUE, "per_minute": 100_000}
    with Service(completions(scripted)) as service:
        file = write_benchmark(
            folder,
            service.url,
            tasks=["Demo-Posts", hostile_task(folder / "hostile")],
            systems=SYSTEMS[:-1],
            resources={"documents_per_shard": 40, "search_page": limits},
        )
        benchmark = load_with(resolve, file)
        resources = benchmark.config.resources
        with open_workbench(folder / "store", address="local", names=benchmark.names, resources=resources) as bench:
            write_report_to(summarise(run_benchmark(benchmark, bench)), folder / "results")
            prepared = prepare(benchmark, bench)
            with served(benchmark, bench, prepared) as url:
                yield Site(url, service, folder / "results", prepared.tasks["Demo-Posts"].queries)


@pytest.fixture(autouse=True)
def forgetful(site: Site) -> None:
    site.service.answer = completions(scripted)
    site.service.forget()


@pytest.mark.parametrize("system", [system["name"] for system in SYSTEMS[:-1]])
def test_an_answer_is_the_benchmarks_run_file(site: Site, system: str) -> None:
    run = read_run(site.results / "runs" / system / "Demo-Posts.trec")

    for query in site.queries[:3]:
        status, _, answer = site.post(question=query.text, system=system, k=10)

        last = answer["reranked"] or answer["fused"] or answer["retrieved"][0]
        assert status == 200
        assert [passage["doc_id"] for passage in last["passages"]] == [
            hit.doc_id for hit in run.rankings[query.query_id][:10]
        ]
        assert [passage["score"] for passage in last["passages"]] == pytest.approx(
            [hit.score for hit in run.rankings[query.query_id][:10]], rel=1e-6
        )


def test_fifty_questions_at_once_are_all_answered(site: Site) -> None:
    questions = [f"fever and rash number {number}" for number in range(50)]

    with ThreadPoolExecutor(50) as visitors:
        answers = list(visitors.map(lambda text: site.post(question=text, system="hybrid", k=3), questions))

    assert [status for status, _, _ in answers] == [200] * 50
    assert [answer["question"] for _, _, answer in answers] == questions


def test_a_full_queue_answers_503_and_says_when_to_come_back(site: Site) -> None:
    held = site.service.answer = Held(completions(scripted), after=0)
    too_many = 8

    with ThreadPoolExecutor(AT_ONCE + QUEUE + too_many) as visitors:
        asked = [
            visitors.submit(site.post, question=f"held {number}", system="bm25+hyde", k=1)
            for number in range(AT_ONCE + QUEUE + too_many)
        ]
        ended = as_completed(asked)
        first = [next(ended).result() for _ in range(too_many)]
        held.open()
        rest = [each.result() for each in ended]

    assert [(status, headers["retry-after"]) for status, headers, _ in first] == [(503, "1")] * too_many
    assert [status for status, _, _ in rest] == [200] * (AT_ONCE + QUEUE)


@pytest.mark.parametrize("path", ["/api/search", "/api/stream"])
def test_a_visitor_who_leaves_makes_room_for_the_next(site: Site, path: str) -> None:
    held = site.service.answer = Held(completions(scripted), after=0)
    host = urlsplit(site.url).netloc
    visitors = [http.client.HTTPConnection(host) for _ in range(AT_ONCE)]
    for number, visitor in enumerate(visitors):
        body = json.dumps({"question": f"left {path} {number}", "system": "bm25+hyde"})
        visitor.request("POST", path, body, {"Content-Type": "application/json"})
    deadline = time.monotonic() + 120
    while len(site.service.requests) < 2 * AT_ONCE:  # each question has two texts
        assert time.monotonic() < deadline
        time.sleep(0.02)

    for visitor in visitors:
        visitor.close()

    # All turns are taken by questions that the language model holds; only visitors who left free one.
    assert site.post(question="next", system="bm25")[0] == 200
    held.open()


def test_a_longer_question_and_a_longer_body_are_refused(site: Site) -> None:
    status, _, answer = site.post(question="a" * 8_001)
    assert (status, answer["detail"]) == (413, "the question has 8001 characters; at most 8000 are read")

    status, _, answer = site.post(question="a" * 70_000)
    assert (status, answer["detail"]) == (413, "the body of the request has more than 65536 bytes")


def test_the_interface_is_described_for_programs(site: Site) -> None:
    described = site.get("openapi.json")

    assert {"/api/systems", "/api/questions", "/api/search", "/api/stream"} == described["paths"].keys()
    assert site.get("api/search?question=fever&k=2&system=bm25")["retrieved"][0]["name"] == "bm25"
    assert [each["name"] for each in site.get("api/systems")["systems"]] == [each["name"] for each in SYSTEMS[:-1]]
    assert len(site.get("api/questions?task=Demo-Posts")) == len(site.queries)


def test_a_page_of_another_host_can_not_ask(site: Site) -> None:
    request = urllib.request.Request(site.url + "api/systems", headers={"Host": "elsewhere.example"})

    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(request, timeout=60)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """The page; at its end it has complained of nothing and asked nobody else."""
    opened = browser.new_page(viewport={"width": 1200, "height": 800})
    opened.set_default_timeout(PATIENCE_MS)
    complaints: list[str] = []
    requested: list[str] = []
    opened.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda request: requested.append(request.url))
    opened.goto(site.url)
    opened.locator("#suggestions button").first.wait_for()
    yield opened
    opened.close()
    assert complaints == []
    assert [url for url in requested if not url.startswith((site.url, "about:", "data:"))] == []


def wait_until_done(page: Page, said: str = "") -> None:
    """Wait until the page says that all steps are shown, and maybe more."""
    page.locator("#status", has_text=re.compile(f"^Done.*{said}")).wait_for()


def ask(page: Page, question: str, system: str) -> None:
    """Type a question and press Enter."""
    page.evaluate(f"document.getElementById('system').value = {json.dumps(system)}")
    page.locator("#question").fill(question)
    page.locator("#question").press("Enter")


HEADINGS = "[...document.querySelectorAll('#lists h2')].map((each) => each.firstChild.textContent)"
WATCH = """
window.seen = [];
new MutationObserver(() => window.seen.push(document.getElementById("texts").textContent))
  .observe(document.getElementById("texts"), { childList: true, characterData: true, subtree: true });
"""


@needs_chromium
def test_the_rewriting_is_seen_while_it_is_written(page: Page, site: Site) -> None:
    page.evaluate(WATCH)
    site.service.trouble(*[stalling(completions(scripted), 1.0)] * 2)

    ask(page, "a question that is typed", "bm25+hyde")
    wait_until_done(page)

    seen = page.evaluate("window.seen")
    assert "A rash after a fever." in seen[-1]
    assert any(0 < len(text.replace("Reasoning", "")) < len(seen[-1]) / 2 for text in seen)


@needs_chromium
def test_every_list_is_shown_and_another_system_is_asked_when_it_is_chosen(page: Page, site: Site) -> None:
    ask(page, site.queries[0].text, "hybrid+maxsim")
    wait_until_done(page)

    assert page.evaluate(HEADINGS) == ["bm25", "all-MiniLM-L6-v2", "Fused: rrf", "Reranked: maxsim-minilm"]
    assert page.evaluate("document.querySelectorAll('.reranked li').length") == 10
    assert page.evaluate("document.querySelectorAll('.mark').length") > 0
    marked = page.locator(".reranked li:first-child .sentence small").all_inner_texts()
    named = page.locator(".reranked li:first-child").get_by_text("Score by sentences: ").inner_text()
    assert marked
    assert all(text.strip(" []").replace(":", "") in named for text in marked)
    assert page.locator("#lists section:not(.reranked) .sentence").count() == 0
    assert "from rrf" in page.evaluate("document.querySelector('.reranked').textContent")
    page.locator("#system").select_option("bm25")
    wait_until_done(page)

    assert page.evaluate(HEADINGS) == ["bm25"]


@needs_chromium
def test_a_question_of_the_benchmark_is_suggested_and_chosen_with_the_keyboard(page: Page, site: Site) -> None:
    query = site.queries[3]
    page.locator("#question").press_sequentially(query.text[:40])
    page.locator("#suggestions button").first.wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    assert page.evaluate("document.getElementById('question').value") == query.text
    assert page.evaluate("document.activeElement.id") == "question"
    page.keyboard.press("Enter")
    wait_until_done(page, "The benchmark knows")


@needs_chromium
def test_hostile_text_is_shown_and_does_not_run(page: Page, site: Site) -> None:
    site.service.answer = completions(lambda prompt: HOSTILE)
    title = page.evaluate("document.title")

    page.evaluate("document.getElementById('task').value = 'Hostile'; readQuestions()")

    ask(page, f"fever {HOSTILE}", "bm25+hyde")
    wait_until_done(page)

    assert page.evaluate("document.getElementById('texts').textContent").count(HOSTILE) == 2
    assert page.evaluate("document.querySelector('#lists .id').textContent") == HOSTILE_ID
    assert HOSTILE in page.evaluate("document.querySelector('#lists .text').textContent")
    assert page.evaluate("document.title") == title
    assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0


@needs_chromium
def test_nothing_is_wider_than_a_phone(page: Page, site: Site) -> None:
    phone = {"width": 375, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.context.new_cdp_session(page).send("Emulation.setDeviceMetricsOverride", phone)
    assert page.evaluate("document.querySelectorAll('#suggestions li').length") > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 375

    ask(page, site.queries[0].text, "hybrid+maxsim")
    wait_until_done(page)

    assert page.evaluate("document.documentElement.scrollWidth") <= 375


@needs_chromium
def test_every_field_has_a_name_and_what_happens_is_told_to_a_screen_reader(page: Page) -> None:
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    named = {
        (node["role"]["value"], node["name"]["value"])
        for node in tree
        if not node["ignored"] and node.get("name", {}).get("value")
    }

    assert {
        ("textbox", "Question"), ("combobox", "System"), ("combobox", "Task"), ("button", "Search")
    } <= named  # fmt: skip
    assert "status" in {node["role"]["value"] for node in tree if not node["ignored"]}


@needs_chromium
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious_before_and_after_an_answer(page: Page, site: Site, colours: Any) -> None:
    page.emulate_media(color_scheme=colours)
    empty = serious(page)
    ask(page, site.queries[0].text, "hybrid+maxsim")
    wait_until_done(page)

    assert (empty, serious(page)) == ([], [])


@needs_chromium
def test_on_paper_are_the_question_and_whole_passages_on_white_without_tools(page: Page, site: Site) -> None:
    ask(page, site.queries[0].text, "bm25")
    wait_until_done(page)

    page.emulate_media(media="print", color_scheme="dark")

    assert page.locator("#question").is_visible()
    assert not page.locator("form button").first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    cut = "[...document.querySelectorAll('#lists .text')].filter((each) => each.scrollHeight > each.clientHeight + 1)"
    assert page.evaluate(f"{cut}.length") == 0
