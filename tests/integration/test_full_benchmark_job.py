"""The job from configuration to report, in a process of its own, with real models and a real cluster."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.manifests import REMEDY
from tests.damage import flip, flip_an_id
from tests.http_services import Held, Service, embeddings
from tests.integration.jobs import run_files, run_job, running_job, write_config
from tests.integration.nodes import nodes_in

pytestmark = [pytest.mark.ray, pytest.mark.serve]

SHARD = 20
"""Documents per shard in small.yaml, whose task has 80 documents."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the job has run once, with the configuration small.yaml."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "log").write_text(run_job(write_config(folder / "small.yaml"), cwd=folder).stdout)
    return folder


def test_the_job_ends_with_the_leaderboard_and_the_path_of_the_page(finished: Path) -> None:
    lines = (finished / "log").read_text().splitlines()

    assert lines[-1] == f"report: {finished / 'results' / 'small' / 'index.html'}"
    for system in ("bm25", "bm25+hyde", "minilm", "hybrid+maxsim"):
        assert any(line.split()[:1] == [system] or f" {system} " in line for line in lines)


def test_every_file_of_the_report_is_there(finished: Path) -> None:
    results = finished / "results" / "small"

    assert len(run_files(results)) == 4
    for name in ("index.html", "leaderboard.md", "leaderboard.csv", "manifest.json", "per_query.parquet"):
        assert (results / name).stat().st_size > 0
    assert len(list(results.glob("mteb/**/*.json"))) == 4


def test_the_hypothetical_documents_help_bm25_on_the_demo(finished: Path) -> None:
    scores = {
        path.parent.name: json.loads(path.read_text())["scores"]["test"][0]["ndcg_at_10"]
        for path in (finished / "results" / "small").glob("mteb/**/*.json")
    }

    assert scores["bm25"] < scores["bm25+hyde"]


def test_a_second_run_encodes_and_indexes_nothing_and_writes_the_same_runs(finished: Path, address: str) -> None:
    store = ArtifactStore(str(finished / "store"))
    before, runs = store.names(), run_files(finished / "results" / "small")

    run_job(finished / "small.yaml", "--output", finished / "again", cwd=finished, address=address)

    assert store.names() == before
    assert run_files(finished / "again") == runs
    manifest = json.loads((finished / "again" / "manifest.json").read_text())
    assert all(stage["reused"] for stage in manifest["stages"])


def test_a_dry_run_shows_what_is_stored_and_makes_nothing(finished: Path, address: str) -> None:
    store = ArtifactStore(str(finished / "store"))
    before = store.names()
    config, fresh_store = finished / "small.yaml", finished / "fresh"

    shown = run_job(config, "--dry-run", cwd=finished, address=address).stdout
    fresh = run_job(config, "--dry-run", "--store", fresh_store, cwd=finished, address=address).stdout

    assert "vectors for all-MiniLM-L6-v2, Demo-Posts: 4 + 0" in shown
    assert "corpus to be converted" in fresh
    assert store.names() == before
    assert not fresh_store.exists()


@pytest.mark.parametrize(("kind", "change"), [("vectors", flip), ("corpus", flip_an_id)])
def test_a_flipped_bit_in_the_store_stops_the_job_and_is_named(
    finished: Path, tmp_path: Path, address: str, kind: str, change: Callable[[Artifact], str]
) -> None:
    shutil.copytree(finished / "store", tmp_path / "store")
    store = ArtifactStore(str(tmp_path / "store"))
    damaged = next(store.all(kind))
    file = change(damaged)
    for name in store.names_of("run"):
        store.remove(name)

    arguments = [finished / "small.yaml", "--store", tmp_path / "store", "--output", tmp_path / "2"]
    failed = run_job(*arguments, cwd=finished, check=False, address=address)

    assert failed.returncode == 2
    [error] = [line for line in failed.stderr.splitlines() if line.startswith("error: ")]
    assert damaged.name in error
    assert file in error
    assert error.endswith(REMEDY)
    assert not (tmp_path / "2").exists()


def with_a_service(config: Path, folder: Path, url: str) -> Path:
    """Write a copy of a benchmark with one more system, `served`. A service embeds one shard per request for it."""
    folder.mkdir()
    words = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = WhitespaceSplit()
    words.save(str(folder / "tokenizer.json"))
    row = {"name": "served", "model": "m", "base_url": url, "dimension": 3, "tokenizer": str(folder)}
    row |= {"max_length": 1000, "max_input_tokens": 1000, "batch_tokens": 100_000, "batch_texts": SHARD}
    (folder / "models.yaml").write_text(yaml.safe_dump({"api_encoders": [row]}))
    values = yaml.safe_load(config.read_text())
    values["systems"].append({"name": "served", "retriever": "served"})
    (folder / "benchmark.yaml").write_text(yaml.safe_dump({**values, "models": "models.yaml"}))
    return folder / "benchmark.yaml"


def test_a_killed_driver_leaves_nothing_half_made_and_is_resumed(
    finished: Path, store: ArtifactStore, tmp_path: Path, address: str
) -> None:
    # The service answers for two of the four shards and then gives no answer, so that the job can't go on.
    held = Held(
        embeddings(lambda text: [1.0, len(text), text.count("e")]),
        after=2,
        counted=lambda request: len(request.body["input"]) == SHARD,
    )
    with Service(held) as service:
        config = with_a_service(finished / "small.yaml", tmp_path / "job", service.url)
        arguments = [config, "--store", store.uri, "--output", tmp_path / "out"]
        with running_job(*arguments, cwd=tmp_path) as job:
            job.wait_for("request for a third shard", held.reached.is_set)
            job.wait_for("finished shard", lambda: bool(store.names_of("vectors")))
            job.kill()
        vectors = set(store.names_of("vectors"))
        problems = list(store.problems())
        held.open()

        assert problems == []
        assert not (tmp_path / "out").exists()
        run_job(*arguments, cwd=tmp_path, address=address)

    assert set() < vectors < set(store.names_of("vectors"))
    runs = run_files(tmp_path / "out")
    assert len(runs.pop("runs/served/Demo-Posts.trec").splitlines()) == 15 * 80  # every query has every document
    assert runs == run_files(finished / "results" / "small")


def test_a_driver_killed_at_five_points_leaves_what_the_next_one_finishes_with_the_same_bytes(
    finished: Path, store: ArtifactStore, tmp_path: Path, address: str
) -> None:
    there = len(ArtifactStore(str(finished / "store")).names())
    arguments = [finished / "small.yaml", "--store", store.uri, "--output", tmp_path / "out"]
    for number in sorted(random.Random(10).sample(range(1, there), 5)):
        with running_job(*arguments, cwd=tmp_path, address=address) as job:
            job.wait_for(f"artefact {number} of {there}", lambda number=number: len(store.names()) >= number)
            job.kill()
        assert list(store.problems()) == []
        assert not (tmp_path / "out").exists()
    run_job(*arguments, cwd=tmp_path, address=address)

    assert run_files(tmp_path / "out") == run_files(finished / "results" / "small")
    assert store.names() == ArtifactStore(str(finished / "store")).names()


def test_two_jobs_on_one_store_at_once_give_the_same_bytes_and_damage_nothing(
    finished: Path, store: ArtifactStore, tmp_path: Path
) -> None:
    arguments = [finished / "small.yaml", "--store", store.uri, "--output"]
    with (
        running_job(*arguments, tmp_path / "a", cwd=tmp_path, log_name="a.log") as first,
        running_job(*arguments, tmp_path / "b", cwd=tmp_path, log_name="b.log") as second,
    ):
        for job in (first, second):
            assert job.process.wait(timeout=580) == 0, job.log.read_text()

    assert run_files(tmp_path / "a") == run_files(tmp_path / "b") == run_files(finished / "results" / "small")
    assert store.names() == ArtifactStore(str(finished / "store")).names()
    assert list(store.problems()) == []


def test_a_job_whose_object_store_is_tiny_gives_the_same_bytes(
    finished: Path, store: ArtifactStore, tmp_path: Path
) -> None:
    with nodes_in(tmp_path) as nodes:
        address = nodes.start_head(f"--object-store-memory={80 * 1024**2}", cpus=2)
        arguments = [finished / "small.yaml", "--store", store.uri, "--output", tmp_path / "out"]
        run_job(*arguments, cwd=tmp_path, address=address)

    assert run_files(tmp_path / "out") == run_files(finished / "results" / "small")


def test_what_is_wrong_with_a_benchmark_stops_it_with_exit_code_2(
    finished: Path, tmp_path: Path, address: str
) -> None:
    arguments = [finished / "small.yaml", "--store", tmp_path, "--set", "resources.encode.gpus=1"]
    failed = run_job(*arguments, cwd=tmp_path, check=False, address=address)

    assert failed.returncode == 2
    assert "error: resources.encode reserves 1 × 1 GPU, 1 in all; the cluster has 0" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not (tmp_path / "results").exists()
