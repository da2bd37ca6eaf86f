"""The rewriters of the systems that lead, from their prompts to run files, with a scripted service.

The service answers as it is asked, and the answers arrive one by one in one store and in another order in the other.
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from r2med_ray.evaluation.trec import write_run
from r2med_ray.pipeline import rank
from r2med_ray.types import Run
from r2med_ray.workbench.bench import Workbench, open_workbench
from r2med_ray.workbench.parts import Ended
from tests.http_services import Answer, Reply, Request, Service, completions, slow

DOCUMENTS = {
    "gout": "Urate crystals in the joint cause gout of the big toe.",
    "pseudogout": "Calcium pyrophosphate crystals in the knee cause pseudogout.",
    "measles": "A rash after fever and cough: measles is a virus of children.",
    "rubella": "A rash and swollen nodes: rubella harms the unborn.",
    "asthma": "Wheezing and cough: asthma narrows the airways.",
}
QUERIES = {"toe": "Why is my toe red and hot?", "spots": "Why has my child spots after a cough?"}
BOTH = {"retrievers": ["bm25", "all-MiniLM-L6-v2"], "fusion": {"method": "minmax", "weights": [0.25, 0.75]}}
FEEDBACK = {"retriever": "all-MiniLM-L6-v2", "depth": 1}
SYSTEMS: dict[str, dict[str, Any]] = {
    "intent": {"retriever": "bm25", "rewriter": {"method": "intent", "llm": "m"}},
    "rewrites": {**BOTH, "rewriter": {"method": "reasoned-query", "llm": "m", "samples": 5, "combine": "sum"}},
    "diver": {"retriever": "all-MiniLM-L6-v2", "rewriter": {"method": "diver-qexpand", "candidates": FEEDBACK}},
    "thinkqe": {"retriever": "bm25", "rewriter": {"method": "thinkqe", "candidates": FEEDBACK, "samples": 2}},
    "contrast": {**BOTH, "rewriter": {"method": "contrast", "llm": "m"}},
}
for each in SYSTEMS.values():
    each["rewriter"].setdefault("llm", "m")


def written(prompt: str) -> str:
    """Write what the prompt is about: its words and a number that depends on all of them."""
    subject = "urate crystals joint gout" if "toe" in prompt else "rash fever measles virus"
    mimic = "pyrophosphate pseudogout knee" if "toe" in prompt else "nodes rubella unborn"
    return f"{mimic if 'mimic' in prompt else subject} {number_of(prompt)}"


def number_of(text: str) -> int:
    return hashlib.sha256(text.encode()).digest()[0]


def out_of_order(answer: Answer) -> Answer:
    """Return an answer that each request gets after a time of its own."""

    def late(request: Request) -> Reply:
        return slow(answer, number_of(request.content.hex()) / 5000)(request)

    return late


def opened(folder: Path, url: str, at_once: int) -> Any:
    """Open a workbench with a store in a folder, and a language model `m` that gets so many prompts at once."""
    folder.mkdir()
    row = {
        "name": "m",
        "kind": "openai",
        "model": "m",
        "base_url": url,
        "revision": "0" * 40,
        "calls": {"max_in_flight": at_once},
    }
    (folder / "models.yaml").write_text(yaml.safe_dump({"language_models": [row]}))
    return open_workbench(folder / "store", models=folder / "models.yaml")


def ranked(bench: Workbench) -> dict[str, Run]:
    task = bench.task("mine", documents=DOCUMENTS, queries=QUERIES)
    parts = {name: rank(task, bench.system({"name": name, **system})) for name, system in SYSTEMS.items()}
    runs = {}
    for name, ended in bench.run(parts):
        assert isinstance(ended, Ended)
        runs[name] = ended.result.run
    return runs


class Scripted(NamedTuple):
    """What one store and its service have seen."""

    files: dict[str, bytes]
    names: list[str]
    requests: int
    again: int
    """Number of requests of a second run."""

    runs: dict[str, Run]


def scripted(folder: Path, answer: Answer, at_once: int) -> Scripted:
    with Service(answer) as service, opened(folder, service.url, at_once) as bench:
        runs = ranked(bench)
        requests = len(service.requests)
        assert ranked(bench) == runs
        again = len(service.requests) - requests
        assert (service.most_at_once > 1) == (at_once > 1)
        names = sorted(bench.store.names())
    for name, run in runs.items():
        write_run(folder / f"{name}.trec", run)
    files = {path.name: path.read_bytes() for path in sorted(folder.glob("*.trec"))}
    return Scripted(files=files, names=names, requests=requests, again=again, runs=runs)


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    """What is there after answers that came one by one."""
    return scripted(tmp_path_factory.mktemp("serial") / "home", completions(written), 1)


def test_runs_and_artefacts_are_the_same_under_any_order_of_arrival(one_by_one: Scripted, tmp_path: Path) -> None:
    assert scripted(tmp_path / "home", out_of_order(completions(written)), 16) == one_by_one
    assert len(one_by_one.files) == len(SYSTEMS)


def test_every_text_is_asked_for_once(one_by_one: Scripted) -> None:
    # for each query: an intent, 5 rewrites, 2 rounds, 3 rounds of 2 samples, a target and its mimic
    assert one_by_one.requests == (1 + 5 + 2 + 3 * 2 + 2) * len(QUERIES)
    assert one_by_one.again == 0


def test_each_method_finds_what_its_texts_are_about(one_by_one: Scripted) -> None:
    for name, run in one_by_one.runs.items():
        assert [run.rankings[query_id][0].doc_id for query_id in QUERIES] == ["gout", "measles"], name
    # What is taken for the answer shares no word with the query or the target, and loses all scores that it has.
    scores = dict(one_by_one.runs["contrast"].rankings["toe"])
    assert scores["pseudogout"] == min(scores.values())
