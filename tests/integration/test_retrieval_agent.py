"""An agent whose answer is the ranking, from the calls of a scripted service to the report."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from r2med_ray.benchmark import run_benchmark
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import write_report_to
from r2med_ray.settings.config_files import load_with
from r2med_ray.systems import resolve
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.showing.show import show
from r2med_ray.workbench.showing.text import shown_text
from tests.http_services import Answer, Reply, Request, Service, calling, slow
from tests.integration.jobs import run_files

AGENT = {
    "method": "retrieval-agent",
    "llm": "m",
    "agent": {"retriever": "bm25", "depth": 4, "words": 30, "max_turns": 2},
}
SYSTEMS = [
    {"name": "bm25", "retriever": "bm25"},
    {"name": "agent", "retriever": "bm25", "rewriter": AGENT | {"max_unusable": 0.5}},
    {
        "name": "agent+maxsim",
        "retriever": "bm25",
        "rewriter": AGENT | {"max_unusable": 0.5},
        "reranker": {"model": "maxsim-minilm", "depth": 2},
    },
]


KIND = ("answers", "goes on", "finds nothing")
"""What the scripted model does with the queries in turn: it answers with an invented and a repeated id, searches for
ever, or searches for what nothing is found for. Each is done with five of the fifteen queries."""

KINDS: dict[str, str] = {}
"""Text of a query → what is done with it."""


def script(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the next calls of a conversation: searches with other words of the question each time."""
    question = messages[1]["content"].split("Question:\n")[1].strip()
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if KINDS[question] == "answers" and results:
        return [("final_results", json.dumps({"ids": ["p2", "p99", "p2", "p1"]}))]
    words = question.split()[len(results) * 4 : len(results) * 4 + 12]
    wanted = "zzzz" if KINDS[question] == "finds nothing" else " ".join(words)
    return [("retrieve", json.dumps({"query": wanted}))]


def benchmark(folder: Path, url: str) -> Any:
    folder.mkdir()
    row = {"name": "m", "kind": "openai", "model": "m", "base_url": url, "revision": "0" * 40}
    (folder / "models.yaml").write_text(yaml.safe_dump({"language_models": [row]}))
    values = {
        "name": "agents",
        "tasks": ["Demo-Posts"],
        "models": "models.yaml",
        "systems": SYSTEMS,
    }
    (folder / "agents.yaml").write_text(yaml.safe_dump(values))
    return load_with(resolve, folder / "agents.yaml", ())


def report(folder: Path, answer: Answer) -> tuple[Path, list[str]]:
    """Run the benchmark into a folder, show a query of it, and return the report's folder and what was shown."""
    with Service(answer) as service:
        found = benchmark(folder, service.url)
        with open_workbench(folder / "store", names=found.names, resources=found.config.resources) as bench:
            task = bench.task("Demo-Posts")
            KINDS.update({query.text: KIND[place % 3] for place, query in enumerate(task.queries)})
            written = write_report_to(summarise(run_benchmark(found, bench)), folder / "results")
            asked = len(service.requests)
            run_benchmark(found, bench)
            assert len(service.requests) == asked
            shown = show(bench, found, task="Demo-Posts", system="agent", query=task.queries[0].query_id)
    return Path(str(written)), shown_text(shown).split("\n")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    return report(tmp_path_factory.mktemp("agents") / "home", calling(script))


def ranking(folder: Path, system: str, query_id: str) -> list[str]:
    lines = (folder / "runs" / system / "Demo-Posts.trec").read_text().splitlines()
    return [line.split()[2] for line in lines if line.split()[0] == query_id]


def test_what_the_model_named_is_the_ranking_a_limit_fuses_and_nothing_found_is_searched(
    finished: tuple[Path, list[str]],
) -> None:
    folder, _ = finished
    manifest = json.loads((folder / "manifest.json").read_text())
    [result] = [each for each in manifest["results"] if each["system"] == "agent"]

    assert len(ranking(folder, "agent", "1")) == 2  # p2, p1
    assert 4 < len(ranking(folder, "agent", "2")) <= 12  # up to three searches of four passages, fused
    assert ranking(folder, "agent", "3") == ranking(folder, "bm25", "3")
    flagged = {reason: len(query_ids) for reason, query_ids in result["flagged"].items()}
    assert flagged == {"invented ids": 5, "repeated ids": 5, "turn limit": 10}
    assert len(result["unchanged"]) == 5


def test_a_reranker_reorders_what_the_agent_ranked(finished: tuple[Path, list[str]]) -> None:
    folder, _ = finished

    assert {*ranking(folder, "agent+maxsim", "1")} == {*ranking(folder, "agent", "1")}


def test_what_was_called_and_shown_can_be_read(finished: tuple[Path, list[str]]) -> None:
    _, shown = finished

    assert any(line.strip().startswith("retrieve(") for line in shown)


def test_runs_are_the_same_under_any_order_of_arrival(finished: tuple[Path, list[str]], tmp_path: Path) -> None:
    def late(request: Request) -> Reply:
        return slow(calling(script), (len(request.content) % 7) / 100)(request)

    again, _ = report(tmp_path / "home", late)

    assert run_files(again) == run_files(finished[0])
