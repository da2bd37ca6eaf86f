"""A whole demo with a served language model, whose workers and whose engine are killed while it goes on."""

import random
import re
import threading
import time
from pathlib import Path

import psutil
import pytest

from r2med_ray.storage.artifacts import ArtifactStore
from tests.integration.jobs import SHORT, RunningJob, run_files, run_job, running_job
from tests.integration.language_server import needs_vllm
from tests.integration.test_live_rewriting_job import HYDE, job

pytestmark = [pytest.mark.ray, pytest.mark.serve, pytest.mark.llm, needs_vllm, pytest.mark.timeout(2400)]

SYSTEMS = [
    {"name": "bm25", "retriever": "bm25"},
    {"name": "bm25+hyde", "retriever": "bm25", "rewriter": HYDE},
    {"name": "minilm", "retriever": SHORT},
    {
        "name": "hybrid+maxsim",
        "retrievers": ["bm25", SHORT],
        "fusion": {"method": "rrf"},
        "reranker": {"model": "maxsim-minilm", "depth": 2},
    },
]

WORKERS = re.compile(r"^ray::(\w*MapWorker|ShardOwner|ServeReplica:.*pair-scorer)")
"""What Ray calls the processes that encode, hold shards and score pairs."""

ENGINE = "EngineCore"


class Chaos(threading.Thread):
    """Kills processes of a job until it ends: the engine once after its first answer, and a worker again and again.

    A worker is killed when some artefacts more are stored, from two to six, drawn from a seed: so the kills follow
    the work on a fast machine and on a slow one.
    """

    def __init__(self, job: RunningJob, store: ArtifactStore, seed: int) -> None:
        super().__init__()
        self.killed: list[str] = []
        self._job = job
        self._store = store
        self._random = random.Random(seed)

    def run(self) -> None:
        next_at = 1
        while self._job.process.poll() is None:
            if ENGINE not in self.killed and self._store.names_of("generation"):
                self._kill(ENGINE, re.compile(ENGINE))
            stored = len(self._store.names())
            if stored >= next_at and self._kill("worker", WORKERS):
                next_at = stored + self._random.randint(2, 6)
            time.sleep(0.02)

    def _kill(self, name: str, pattern: re.Pattern[str]) -> bool:
        """Kill one process of the job with such a title; return whether there was one."""
        try:
            children = psutil.Process(self._job.process.pid).children(recursive=True)
            found = [child for child in children if pattern.search(" ".join(child.cmdline()))]
            if not found:
                return False
            self._random.choice(sorted(found, key=lambda child: child.pid)).kill()
        except psutil.NoSuchProcess:  # one of them has ended meanwhile
            return False
        self.killed.append(name)
        return True


def test_a_demo_whose_workers_and_engine_are_killed_ends_with_the_same_run_files_byte_for_byte(
    llama: Path, tmp_path: Path
) -> None:
    resources = {"documents_per_shard": 40, "search": {"actors": 2}, "language_model": {"kv_cache_gib": 1}}
    config = job(tmp_path / "job", llama, tasks=["Demo-*"], systems=SYSTEMS, resources=resources)
    store = ArtifactStore(str(tmp_path / "disturbed"))
    arguments = [config, "--store", store.uri, "--output", tmp_path / "out"]
    with running_job(*arguments, cwd=tmp_path) as disturbed:
        chaos = Chaos(disturbed, store, seed=11)
        chaos.start()
        ended = disturbed.process.wait(timeout=1400)
        chaos.join()
        assert ended == 0, disturbed.log.read_text()

    assert chaos.killed.count(ENGINE) == 1
    assert chaos.killed.count("worker") >= 3
    assert list(store.problems()) == []
    run_job(config, "--store", tmp_path / "undisturbed", "--output", tmp_path / "plain", cwd=tmp_path, timeout_s=900)
    assert len(run_files(tmp_path / "out")) == 3 * len(SYSTEMS)
    assert run_files(tmp_path / "out") == run_files(tmp_path / "plain")
