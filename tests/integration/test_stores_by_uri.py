"""A whole job over an object store: the same results as on a disk, resumed after a kill, and no secret anywhere."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from r2med_ray.benchmark import run_benchmark
from r2med_ray.cli.main import app
from r2med_ray.reporting.report_places import local_copy
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import load_results, write_report_to
from r2med_ray.settings.config_files import load_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.garbage import collect_garbage
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.systems import resolve
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.job_records import recorded
from r2med_ray.workbench.plan import make_plan
from tests.integration.jobs import run_files, run_job, running_job, write_config
from tests.object_store import KEY_ID, SECRET, gcs_server, s3_server, s3_uri

TWO = {
    "systems": [
        {"name": "bm25", "retriever": "bm25"},
        {"name": "hyde", "retriever": "bm25", "rewriter": {"method": "hyde", "generations": "demo-writer"}},
    ],
    "resources": {"documents_per_shard": 10},
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("moto", reason="the extra `dev` has a server for S3")
    with s3_server() as address:
        yield address


@pytest.fixture
def google(tmp_path: Path) -> Iterator[str]:
    """The URI of a bucket of an emulator of Google Cloud Storage."""
    pytest.importorskip("gcp_storage_emulator", reason="the extra `dev` has an emulator for GCS")
    with gcs_server() as address:
        yield f"gs://anonymous@bucket/{tmp_path.name}?scheme=http&endpoint_override={address}"


def in_process(config: Path, store: str, output: str | Path) -> tuple[list[bool], str]:
    """Run a benchmark without a cluster. Return whether each stage was reused, and the plan that was made before."""
    benchmark = resolve(load_config(config, []))
    with open_workbench(store, names=benchmark.names, resources=benchmark.config.resources) as bench:
        plan = make_plan(benchmark, bench.store, bench.runner).text()
        record = run_benchmark(benchmark, bench)
    write_report_to(summarise(record), output)
    return [stage.reused for stage in record.stages], plan


def content(output: str) -> dict[str, bytes]:
    with local_copy(output) as folder:
        return run_files(folder)


def everything(store: ArtifactStore) -> bytes:
    """Paths and bytes of all files of a bucket."""
    infos = store.place.listed(store.root.partition("/")[0], recursive=True)
    return b"".join(
        info.path.encode() + (store.place.read(info.path).to_pybytes() if info.size else b"") for info in infos
    )


def test_a_benchmark_in_this_process_keeps_all_in_s3(
    server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    config = write_config(tmp_path / "small.yaml", **TWO)
    store, output = s3_uri("bucket/in-process/store", server), s3_uri("bucket/in-process/results", server)

    first, planned = in_process(config, store, output)
    in_process(config, str(tmp_path / "store"), tmp_path / "results")
    again, planned_again = in_process(config, store, output)

    assert content(output) == run_files(tmp_path / "results")
    assert len(content(output)) == 2
    assert not any(first)
    assert all(again)
    assert "corpus to be converted" in planned
    assert "converted" in planned_again
    assert ArtifactStore(store).names() == ArtifactStore(str(tmp_path / "store")).names()
    assert list(ArtifactStore(store).problems()) == []
    assert load_results(output).name == "small"
    assert collect_garbage(ArtifactStore(store), older_than_s=0, now=2e10) == []
    printed = "".join(capsys.readouterr())
    for secret in (SECRET, KEY_ID):
        assert secret not in caplog.text + planned + printed
        assert secret.encode() not in everything(ArtifactStore(store))


def test_a_benchmark_in_this_process_keeps_all_in_google_cloud_storage(google: str, tmp_path: Path) -> None:
    config = write_config(tmp_path / "small.yaml", **TWO)
    output = google.replace("?", "/results?")

    first, _ = in_process(config, google.replace("?", "/store?"), output)
    in_process(config, str(tmp_path / "store"), tmp_path / "results")
    again, _ = in_process(config, google.replace("?", "/store?"), output)

    assert content(output) == run_files(tmp_path / "results")
    assert not any(first)
    assert all(again)


@pytest.mark.ray
def test_the_status_of_a_store_in_s3_says_what_it_holds_and_what_its_jobs_do(server: str) -> None:
    uri = s3_uri("bucket/status/store", server)
    store = ArtifactStore(uri)
    with store.create(ArtifactKey("terms", {"shard": 1})) as writer:
        writer.write("file", b"content")
    with recorded(store, "mine", "results/mine"):
        running = CliRunner().invoke(app, ["status", uri]).stdout.splitlines()
    finished = CliRunner().invoke(app, ["status", uri]).stdout.splitlines()

    assert running[0].startswith(f"store s3://bucket/status/store?scheme=http&endpoint_override={server}")
    assert re.fullmatch(r"  terms +1 stored, the last \d+ s ago", running[1])
    assert running[2] == "jobs: 1"
    assert ", results results/mine: running, last sign " in running[3]
    assert ", results results/mine: finished, " in finished[3]


def test_a_killed_job_over_s3_resumes_to_the_same_runs(server: str, tmp_path: Path) -> None:
    config = write_config(tmp_path / "small.yaml", **TWO)
    uri, output = s3_uri("bucket/killed/store", server), s3_uri("bucket/killed/results", server)
    store = ArtifactStore(uri)
    with running_job(config, "--store", uri, "--output", output, cwd=tmp_path) as job:
        job.wait_for("finished shard", lambda: bool(store.names_of("terms")), limit_s=300)
        job.kill()
        log = job.log.read_text()
    kept = set(store.names_of("terms"))
    resumed = run_job(config, "--store", uri, "--output", output, cwd=tmp_path)
    run_job(config, "--store", tmp_path / "store", "--output", tmp_path / "results", cwd=tmp_path)

    assert kept <= set(store.names_of("terms"))
    assert content(output) == run_files(tmp_path / "results")
    assert f"report: s3://bucket/killed/results?scheme=http&endpoint_override={server}" in resumed.stdout
    assert list(store.problems()) == []
    assert not (tmp_path / "s3:").exists()
    for secret in (SECRET, KEY_ID):
        assert secret not in log + resumed.stdout + resumed.stderr
        assert secret.encode() not in everything(store)
