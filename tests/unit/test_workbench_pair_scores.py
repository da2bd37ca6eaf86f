"""Scores are kept while they arrive: a job that is killed scores only the pairs that are left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.demands import Score, Steps
from r2med_ray.protocols import Candidates, Scorer
from r2med_ray.reranking.pair_requests import KIND, PairRequest
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query, Reranking
from r2med_ray.workbench.driver import Driver
from r2med_ray.workbench.parts import Ended
from r2med_ray.workbench.worklog import Worklog
from tests.fakes import SharedWords
from tests.integration.jobs import REPOSITORY, environment
from tests.unit.scripted_runner import ScriptedRunner, ScriptedScorer, fetch

SCORER = ScriptedScorer()

PADDING = " x" * 20_000
"""40,000 characters, about 10,000 tokens. A request holds 4 × 16,384 tokens, which are 6 such documents."""

DOCUMENTS = [Document(doc_id=f"d{number:02}", text=f"fever w{number % 3} n{number}{PADDING}") for number in range(30)]
"""5 requests of 6 pairs for one query."""


class Counting(SharedWords):
    """Notes the pairs of each request, and does something before it scores one."""

    def __init__(self, runner: "CountingRunner") -> None:
        self._runner = runner

    def score(self, requests: Sequence[PairRequest]) -> Iterator[Scored]:
        self._runner.streams.append([len(request.pairs) for request in requests])
        for request in requests:
            self._runner.before_scoring()
            self._runner.scored += len(request.pairs)
            yield from super().score([request])

    def close(self) -> None:
        """Hold nothing."""


class CountingRunner(ScriptedRunner):
    """Counts the pairs that are scored."""

    streams: list[list[int]]
    scored = 0

    def __init__(self, store: ArtifactStore, worklog: Worklog, fails_at: int | None = None) -> None:
        super().__init__(store, worklog)
        self.streams = []
        self._fails_at = fails_at

    def before_scoring(self) -> None:
        if self.scored == self._fails_at:
            raise RuntimeError("the scorer is gone")

    def start_scorer(self, scorer: Scorer, requests: int) -> Any:
        return Counting(self)


class DyingRunner(CountingRunner):
    """Ends its process once two requests are kept."""

    def before_scoring(self) -> None:
        if len(self._store.names_of(KIND)) == 2:
            os.kill(os.getpid(), signal.SIGKILL)


def scoring(text: str, documents: Sequence[Document] = DOCUMENTS) -> Steps[Reranking]:
    candidates = Candidates(Query(query_id="q", text=text), documents, [0.0] * len(documents))
    reranking: Reranking = yield Score(scorer=SCORER, candidates=(candidates,))
    return reranking


def run(runner: CountingRunner, store: ArtifactStore, worklog: Worklog, **parts: Steps[Reranking]) -> dict[str, Any]:
    ended = dict(Driver(store, runner, worklog, fetch).run(parts))
    return {name: each.result.scores["q"] for name, each in ended.items() if isinstance(each, Ended)}


def run_until_killed(uri: str) -> None:
    store, worklog = ArtifactStore(uri), Worklog()
    run(DyingRunner(store, worklog), store, worklog, part=scoring("fever w1"))


def test_a_killed_job_goes_on_with_the_pairs_that_are_left(store: ArtifactStore, tmp_path: Path) -> None:
    code = f"from {__name__} import run_until_killed; run_until_killed({store.uri!r})"
    killed = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=environment(), check=False)
    kept = len(store.names_of(KIND))
    worklog, whole = Worklog(), ArtifactStore(str(tmp_path / "other"))
    again = CountingRunner(store, worklog)
    resumed = run(again, store, worklog, part=scoring("fever w1"))
    at_once = run(CountingRunner(whole, Worklog()), whole, Worklog(), part=scoring("fever w1"))

    assert (killed.returncode, kept) == (-signal.SIGKILL, 2)
    # Of 30 pairs, 2 requests of 6 were kept.
    assert (again.scored, again.streams) == (18, [[6, 6, 6]])
    assert resumed == at_once
    [entry] = worklog.entries
    assert (entry.report.documents, entry.report.stored_before) == (18, 2)
    # The artefact of all scores has the same name and bytes as that of a job that nobody killed.
    [ours], [theirs] = (list(each.all("rerank")) for each in (store, whole))
    assert (ours.name, ours.files["scores.parquet"].sha256) == (theirs.name, theirs.files["scores.parquet"].sha256)


def test_what_was_scored_before_a_scorer_failed_is_kept(store: ArtifactStore) -> None:
    failing = CountingRunner(store, Worklog(), fails_at=18)
    with pytest.raises(RuntimeError, match="is gone"):
        run(failing, store, Worklog(), a=scoring("fever"), b=scoring("w1"))
    again = CountingRunner(store, Worklog())
    run(again, store, Worklog(), a=scoring("fever"), b=scoring("w1"))

    # Three of the five requests of `a` are kept; `b` begins anew.
    assert again.streams == [[6] * 7]


def test_the_pairs_of_all_parts_are_one_stream(store: ArtifactStore) -> None:
    runner = CountingRunner(store, Worklog())
    results = run(runner, store, Worklog(), a=scoring("fever"), b=scoring("w1"), same=scoring("w1"))

    assert runner.streams == [[6] * 10]
    # Every third document has the word w1: 1, 4, 7, ...
    assert results["b"] == results["same"] == [0.0, 1.0, 0.0] * 10


def test_scores_that_are_one_request_are_kept_once(store: ArtifactStore) -> None:
    run(CountingRunner(store, Worklog()), store, Worklog(), part=scoring("fever", DOCUMENTS[:6]))

    assert [name.split("/")[0] for name in store.names()] == ["rerank"]


def test_scores_of_a_whole_demand_are_found_without_those_of_its_requests(store: ArtifactStore) -> None:
    run(CountingRunner(store, Worklog()), store, Worklog(), part=scoring("fever"))
    for name in store.names_of(KIND):
        store.remove(name)
    idle = CountingRunner(store, Worklog())

    assert run(idle, store, Worklog(), part=scoring("fever")) == {"part": [1.0] * 30}
    assert idle.streams == []


def test_a_job_that_was_killed_before_its_last_step_starts_no_scorer(store: ArtifactStore) -> None:
    run(CountingRunner(store, Worklog()), store, Worklog(), part=scoring("fever"))
    [whole] = store.names_of("rerank")
    store.remove(whole)
    idle = CountingRunner(store, Worklog())

    assert run(idle, store, Worklog(), part=scoring("fever")) == {"part": [1.0] * 30}
    assert idle.streams == []
    assert store.names_of("rerank") == [whole]
