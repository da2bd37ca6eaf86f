"""What somebody reads who watches a job: how far it is, what is wrong in one line, and what Ctrl-C leaves."""

import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from r2med_ray.activity import advanced, lines
from r2med_ray.distributed.preparing import prepare
from r2med_ray.first_stage import Computing, Maker
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import Pool
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document
from tests.fakes import wait_until
from tests.integration.jobs import run_job, running_job, write_config
from tests.unit.tasks import task_of
from tests.word_overlap import OverlapFirstStage, OverlapRow, WordsMaker

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


class WaitsHalfway(WordsMaker):
    """Is halfway through a shard until a file is there."""

    def __init__(self, row: OverlapRow, go: Path) -> None:
        super().__init__(row)
        self._go = go

    def make_shard(self, task: str, documents: Sequence[Document], rows: Any) -> Mapping[str, pa.Table]:
        advanced(len(documents) // 2, tokens=1000)
        while not self._go.exists():
            time.sleep(0.02)
            advanced(0)
        return super().make_shard(task, documents, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfwayFirstStage(OverlapFirstStage):
    go: Path = field(hash=False)

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        return WaitsHalfway(self.row, self.go)


def test_a_job_tells_how_far_its_workers_are_inside_of_a_shard(
    cluster: object, store: ArtifactStore, tmp_path: Path
) -> None:
    task = task_of(store, [f"text {number}" for number in range(10)], shards=1)
    halfway = HalfwayFirstStage(row=OverlapRow(name="words"), rules=Rules(), go=tmp_path / "go")
    with ThreadPoolExecutor(1) as threads:
        made = threads.submit(
            prepare, store, [(task, halfway)], [], Computing(), Pool(actors=1, cpus=1), no_progress_timeout_s=600
        )
        try:
            wait_until(lambda: any("5 of 10 documents" in line for line in lines()), deadline_s=300)
            [line] = [line for line in lines() if "documents" in line]
        finally:
            (tmp_path / "go").touch()
        report = made.result().corpora

    assert report is not None
    assert report.documents == 10
    assert line.startswith("tokenize for words: 5 of 10 documents, ")
    assert " tokens/s, " in line
    assert " left, 1 units waiting" in line


def test_a_wrong_model_is_one_line_and_rays_own_lines_are_shown_to_whoever_wants_them(
    tmp_path: Path, address: str
) -> None:
    row = {"name": "none", "class": "tests.fakes.Clock", "max_length": 8}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump({"encoders": [row]}))
    config = write_config(
        tmp_path / "wrong.yaml", models="models.yaml", systems=[{"name": "none", "retriever": "none"}], baseline=None
    )

    quiet = run_job(config, cwd=tmp_path, check=False, address=address)
    loud = run_job(config, "--verbose", cwd=tmp_path, check=False, address=address)

    for finished in (quiet, loud):
        assert finished.returncode == 2
        [error] = [line for line in finished.stderr.splitlines() if line.startswith("error: ")]
        assert error.startswith("error: encode failed on one of ")
        assert ": none: class tests.fakes.Clock has no method `encode_queries`" in error
    of_ray = ("Traceback", "(pid=", "core_worker")
    assert [word for word in of_ray if word in quiet.stderr] == []
    assert [word for word in of_ray if word in loud.stderr] == list(of_ray)


def test_ctrl_c_ends_a_job_with_what_is_stored_and_the_same_command_goes_on(tmp_path: Path, address: str) -> None:
    config, store = write_config(tmp_path / "small.yaml"), ArtifactStore(str(tmp_path / "store"))
    arguments = [config, "--output", tmp_path / "out"]
    with running_job(*arguments, cwd=tmp_path, address=address) as job:
        job.wait_for("first terms", lambda: bool(store.names_of("terms")))
        job.process.send_signal(signal.SIGINT)
        assert job.process.wait(timeout=300) == 130, job.log.read_text()
        said = job.log.read_text()

    assert "ended by Ctrl-C. Stored since it began, in " in said
    assert "the same command goes on with what is left" in said
    assert "Traceback" not in said
    stored = store.names()
    run_job(*arguments, cwd=tmp_path, address=address)
    assert set(stored) < set(store.names())
