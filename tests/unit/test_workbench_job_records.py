"""The record of a job, and what `r2med status` makes of it."""

import json
import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from r2med_ray.activity import doing
from r2med_ray.cli.main import app
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.workbench.job_records import recorded, status
from tests.fakes import wait_until


def records(store: ArtifactStore) -> list[Path]:
    return sorted(Path(store.root, "jobs").glob("*.json"))


def written_at(store: ArtifactStore) -> float:
    """Return when the only record was written, so that a status of that time is the same on a slow machine."""
    [path] = records(store)
    at: float = json.loads(path.read_text())["at"]
    return at


def test_a_running_job_says_what_it_does_until_it_has_finished(store: ArtifactStore) -> None:
    with recorded(store, "demo", "results/demo", every_s=0.01), doing("encode for m", 9, "documents"):
        [path] = records(store)
        wait_until(lambda: "encode for m" in path.read_text())
        [*_, line] = status(store, written_at(store))
        assert ", results results/demo: running, last sign 0 s ago; encode for m: 0 of 9 documents" in line

    [*_, line] = status(store, written_at(store))
    assert line.startswith("  demo, begun 20")
    assert line.endswith("results results/demo: finished, 0 s ago")


def test_a_job_that_no_longer_writes_is_called_dead(store: ArtifactStore) -> None:
    with recorded(store, "demo", "r"):
        [path] = records(store)
        killed = path.read_bytes()
    path.write_bytes(killed)  # as a killed job leaves it

    written = json.loads(killed)["at"]
    # A sign is due each minute; after three of them the job is dead.
    assert ": running, last sign 3 min ago" in list(status(store, written + 180))[-1]
    assert ": DEAD, or it can't reach this store: no sign of it for 2 h" in list(status(store, written + 7200))[-1]


def test_a_job_is_told_of_another_that_began_earlier_and_still_runs(store: ArtifactStore) -> None:
    with recorded(store, "demo", "r") as alone:
        [path] = records(store)
        running = json.loads(path.read_text())
    earlier = path.rename(path.with_name("20200101T000000-0.json"))
    earlier.write_text(json.dumps(running))
    with recorded(store, "demo", "r") as beside:
        pass
    earlier.write_text(json.dumps(running | {"at": running["at"] - 600}))
    with recorded(store, "demo", "r") as after:
        pass

    # A job without a sign for ten minutes is dead.
    assert (alone, beside, after) == (False, True, False)


def test_a_failed_job_says_why_without_its_secrets(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")

    with pytest.raises(ValueError, match="sk-secret"), recorded(store, "demo", "r"):
        raise ValueError("no\nentry with sk-secret-0123456789")

    [*_, line] = status(store, written_at(store))
    assert ": failed, 0 s ago; ValueError: no entry with " in line
    assert "sk-secret" not in line + records(store)[0].read_text()


def test_the_status_of_a_store_has_each_kind_and_the_time_of_its_last_artefact(store: ArtifactStore) -> None:
    for number in range(3):
        with store.create(ArtifactKey("vectors", {"number": number})) as writer:
            writer.write("file", b"content")
    manifests = list(Path(store.root).glob("vectors/*/manifest.json"))
    for manifest, at in zip(manifests, (1000, 5000, 3000), strict=True):
        os.utime(manifest, (at, at))
    with store.create(ArtifactKey("generation", {}, is_text=True)) as writer:
        writer.write("file", b"content")
    os.utime(Path(store.root, store.names_of("generation")[0]).with_suffix(".manifest.json"), (5119, 5119))

    # The youngest is from second 5,000, two minutes before.
    assert list(status(store, 5120)) == [
        f"store {store.root}",
        "  generation              1 stored, the last 1 s ago",
        "  vectors                 3 stored, the last 2 min ago",
        "jobs: 0",
    ]


def test_a_record_that_cannot_be_read_is_named_beside_the_others(store: ArtifactStore) -> None:
    with recorded(store, "demo", "r"):
        pass
    Path(store.root, "jobs", "0.json").write_text("{")

    printed = CliRunner().invoke(app, ["status", store.root])

    assert printed.exit_code == 0
    assert "/jobs/0.json: can't be read as the record of a job: JSONDecodeError" in printed.stdout
    assert "  demo, begun " in printed.stdout


def test_a_store_that_is_not_there_has_no_status(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["status", str(tmp_path / "mistyped")])

    assert "there is no such folder" in str(printed.exception)


def test_records_of_jobs_are_no_artefacts_and_stay_when_a_store_is_cleaned(store: ArtifactStore) -> None:
    with recorded(store, "demo", "r"):
        pass

    assert store.names() == []
    assert store.unfinished(0, time.time() + 10) == []
