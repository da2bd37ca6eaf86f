"""A pair scorer behind real Ray Serve gives the same scores as a direct call, even if a replica dies meanwhile."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import ray
import torch
import yaml
from ray import serve
from sentence_transformers import CrossEncoder

from r2med_ray.errors import StageError
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.networks.pair_scorers import build_pair_scorer
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.pair_reranking import score_counted
from r2med_ray.reranking.stored_scores import reranking_files
from r2med_ray.serving.clients import ServedReranker
from r2med_ray.serving.reranker_app import serve_pair_scorer
from r2med_ray.serving.serve_session import application_name, start_serve
from r2med_ray.settings.pools import ClusterCapacity
from r2med_ray.settings.resources import RerankResources
from r2med_ray.types import Document, Query, Reranking
from tests.fakes import scored_by, wait_until
from tests.integration.jobs import REPOSITORY, environment, run_files, run_job, write_config
from tests.unit.tiny_checkpoints import classifier

pytestmark = [pytest.mark.ray, pytest.mark.serve]

SMALL = RerankResources(token_budget=64, max_in_flight=8, timeout_s=60, retries=5)


def candidates(query: Query, *documents: Document) -> Candidates:
    return Candidates(query, documents, [0.0] * len(documents))


WORK = [
    candidates(
        Query(query_id=f"q{number}", text=f"fever rash w{number}"),
        *(
            Document(doc_id=f"d{place}", text="fever " * (place % 3) + f"w{(number + place) % 5} " * place)
            for place in range(number % 7)
        ),
    )
    for number in range(30)
]


class SharedWords:
    """Scores a pair by the number of words that both texts have, and writes down the number of pairs of each call."""

    def __init__(self, calls: Path) -> None:
        self.calls = calls

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        with self.calls.open("a") as stream:
            stream.write(f"{len(pairs)}\n")
        return [float(len(set(query.split()) & set(text.split()))) for query, text in pairs]


class DiesOnce(SharedWords):
    """A scorer that ends its process in the first call of the first replica."""

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        marker = self.calls.with_suffix(".died")
        if not marker.exists():
            marker.touch()
            os._exit(1)
        return super().score_pairs(pairs)


def cannot_be_built() -> SharedWords:
    raise ValueError("the weights are torn")


class LosesOne(SharedWords):
    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return super().score_pairs(pairs)[:-1]


class FailsOnce(SharedWords):
    """A scorer that raises an error in its first call."""

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        marker = self.calls.with_suffix(".failed")
        if not marker.exists():
            marker.touch()
            raise RuntimeError("only once")
        return super().score_pairs(pairs)


class RaisesForOnePair(SharedWords):
    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        if ("fever rash w9", WORK[9].documents[1].content) in pairs:
            raise RuntimeError("no score")
        return super().score_pairs(pairs)


class Sleeps(SharedWords):
    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        time.sleep(30)
        return [0.0 for _ in pairs]


def directly(work: Sequence[Candidates], scratch: Path) -> dict[str, list[float]]:
    scorer = SharedWords(scratch / "direct")
    return {
        query.query_id: scorer.score_pairs([(query.text, d.content) for d in documents])
        for query, documents, _ in work
    }


def scored(reranker: ServedReranker, work: Sequence[Candidates] = WORK) -> Reranking:
    return scored_by(reranker, work, SMALL.token_budget)


@pytest.fixture(scope="module")
def served(
    cluster: ClusterCapacity, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ServedReranker, Path]]:
    calls = tmp_path_factory.mktemp("served") / "calls"
    with serve_pair_scorer("shared-words", partial(SharedWords, calls), SMALL, cpus=0.5, gpus=0) as handle:
        yield ServedReranker(handle, SMALL), calls


def test_served_scores_equal_direct_ones_for_every_query(served: tuple[ServedReranker, Path], tmp_path: Path) -> None:
    reranker, _ = served
    assert scored(reranker).scores == directly(WORK, tmp_path)


def test_pairs_of_several_queries_share_a_request(served: tuple[ServedReranker, Path]) -> None:
    reranker, calls = served
    calls.write_text("")
    short = [candidates(Query(query_id=f"q{n}", text="rash"), Document(doc_id="d", text="rash")) for n in range(40)]

    assert scored(reranker, short).scores == {f"q{n}": [1.0] for n in range(40)}
    # A request holds 4 × 64 tokens. A pair of 8 characters is estimated at 8 // 4 + 1 = 3 tokens. So 85 pairs fit,
    # and all 40 are one request.
    assert calls.read_text().split() == ["40"]


def test_the_same_pairs_always_share_a_request(served: tuple[ServedReranker, Path]) -> None:
    reranker, calls = served
    calls.write_text("")
    scored(reranker)
    first = sorted(calls.read_text().split())
    calls.write_text("")
    scored(reranker, WORK[::-1])

    assert sorted(calls.read_text().split()) == first
    assert len(first) > 1


def test_no_candidates_get_no_scores(served: tuple[ServedReranker, Path]) -> None:
    assert scored(served[0], [candidates(Query(query_id="q", text="rash"))]).scores == {"q": []}


def test_a_document_longer_than_a_request_is_scored_alone(served: tuple[ServedReranker, Path]) -> None:
    # 40,000 characters are about 10,000 tokens. A request holds 4 × 64 tokens.
    long = Document(doc_id="long", text="rash " * 8000)
    asked = candidates(Query(query_id="q", text="rash"), long, long)
    assert scored(served[0], [asked]).scores == {"q": [1.0, 1.0]}


def test_a_served_cross_encoder_scores_as_sentence_transformers_does(
    cluster: ClusterCapacity, tmp_path: Path
) -> None:
    folder = classifier(tmp_path / "checkpoint")
    row = RerankerRow(name="tiny", kind="cross-encoder", model=str(folder), max_length=64, dtype="float32")
    build = partial(build_pair_scorer, row, load_catalog(), device="cpu", token_budget=256)
    with serve_pair_scorer("cross-encoder", build, SMALL, cpus=0.5, gpus=0) as handle:
        reranking = scored(ServedReranker(handle, SMALL))
    ours = reranking.scores

    alone = score_counted(build(), [(query.text, each.content) for query, documents, _ in WORK for each in documents])
    assert reranking.cuts == alone.cuts
    assert alone.cuts
    [read] = reranking.example or []
    assert [part["side"] for part in read["parts"]] == ["query", "document"]
    theirs = CrossEncoder(str(folder), device="cpu", max_length=64)
    for query, documents, _ in WORK:
        pairs = [(query.text, document.content) for document in documents]
        expected = theirs.predict(pairs, activation_fn=torch.nn.Identity()).tolist() if pairs else []
        assert ours[query.query_id] == pytest.approx(expected, abs=1e-5)


def test_a_replica_that_dies_loses_no_query(cluster: ClusterCapacity, tmp_path: Path) -> None:
    with serve_pair_scorer("dies-once", partial(DiesOnce, tmp_path / "calls"), SMALL, cpus=0.5, gpus=0) as handle:
        assert scored(ServedReranker(handle, SMALL)).scores == directly(WORK, tmp_path)
    assert (tmp_path / "calls.died").exists()


def test_a_scorer_that_cannot_be_built_fails_with_its_own_words(cluster: ClusterCapacity) -> None:
    served = serve_pair_scorer("torn", cannot_be_built, SMALL, cpus=0.5, gpus=0)
    with pytest.raises(StageError) as raised, served:
        pass

    assert str(raised.value) == "serve failed on reranker 'torn': ValueError: the weights are torn"


def test_a_scorer_that_no_node_has_room_for_ends_at_the_deadline(cluster: ClusterCapacity) -> None:
    served = serve_pair_scorer("huge", cannot_be_built, SMALL, cpus=64, gpus=0, start_within_s=2)
    with (
        pytest.raises(StageError, match=r"reranker 'huge': it has not started within 2 s, the limit `resources\.no_"),
        served,
    ):
        pass

    assert "huge" not in serve.status().applications


def test_ry07_a_scorer_that_loses_a_score_fails_every_caller_and_the_server_lives(
    cluster: ClusterCapacity, tmp_path: Path
) -> None:
    with serve_pair_scorer("loses-one", partial(LosesOne, tmp_path / "calls"), SMALL, cpus=0.5, gpus=0) as handle:
        for _ in range(2):
            with pytest.raises(StageError, match=r"rerank failed on query 'q\d+'.*one score per pair"):
                scored(ServedReranker(handle, SMALL))


def test_a_scorer_that_fails_once_is_asked_again(cluster: ClusterCapacity, tmp_path: Path) -> None:
    with serve_pair_scorer("fails-once", partial(FailsOnce, tmp_path / "calls"), SMALL, cpus=0.5, gpus=0) as handle:
        assert scored(ServedReranker(handle, SMALL)).scores == directly(WORK, tmp_path)
    assert (tmp_path / "calls.failed").exists()


def test_the_pair_that_a_scorer_fails_on_is_named(cluster: ClusterCapacity, tmp_path: Path) -> None:
    with (
        serve_pair_scorer("raises", partial(RaisesForOnePair, tmp_path / "calls"), SMALL, cpus=0.5, gpus=0) as handle,
        pytest.raises(
            StageError, match=r"rerank failed on query .*: query and document 'q9 d1': RuntimeError: no score"
        ),
    ):
        scored(ServedReranker(handle, SMALL))


def test_a_request_past_its_deadline_names_the_query(cluster: ClusterCapacity, tmp_path: Path) -> None:
    impatient = SMALL.model_copy(update={"timeout_s": 1.0, "retries": 0})
    with (
        serve_pair_scorer("sleeps", partial(Sleeps, tmp_path / "calls"), SMALL, cpus=0.5, gpus=0) as handle,
        pytest.raises(StageError, match=r"query 'q\d+' and \d+ others, after 1 attempts"),
    ):
        scored(ServedReranker(handle, impatient))


KILLED_JOB = """
import os, sys
from pathlib import Path
from r2med_ray.distributed.session import connect
from r2med_ray.serving.reranker_app import serve_pair_scorer
from r2med_ray.serving.serve_session import application_name
from tests.integration.test_serving_reranker import SMALL, SharedWords

with connect(sys.argv[1]):
    name = application_name("demo", "words", "0" * 32)
    with serve_pair_scorer(name, lambda: SharedWords(Path(sys.argv[2])), SMALL, cpus=0.25, gpus=0):
        print(name, flush=True)
        os._exit(1)
"""


def test_what_a_killed_job_left_on_the_cluster_is_ended_by_the_next_one_and_nothing_else(
    cluster: ClusterCapacity, tmp_path: Path
) -> None:
    address = ray.get_runtime_context().gcs_address
    ours = application_name("demo", "words", "0" * 32)
    with serve_pair_scorer(ours, partial(SharedWords, tmp_path / "calls"), SMALL, cpus=0.25, gpus=0):
        killed = subprocess.run(
            [sys.executable, "-c", KILLED_JOB, address, tmp_path / "calls"],
            cwd=REPOSITORY, env=environment(), capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        left = killed.stdout.strip()
        assert left.startswith("r2med-"), killed.stderr
        assert left != ours
        assert {left, ours} <= serve.status().applications.keys()

        deadline = time.monotonic() + 60  # the cluster needs time to notice that the driver is gone
        while left in serve.status().applications and time.monotonic() < deadline:
            start_serve(http=False)
            time.sleep(0.5)

        assert left not in serve.status().applications
        assert ours in serve.status().applications


class WaitsForAnother(SharedWords):
    """A scorer that answers only once two replicas have been asked."""

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        folder = self.calls.parent / "replicas"
        folder.mkdir(exist_ok=True)
        (folder / str(os.getpid())).touch()
        wait_until(lambda: len(list(folder.iterdir())) >= 2, deadline_s=100)
        return super().score_pairs(pairs)


@pytest.mark.parametrize("number", [2, "auto"])
def test_two_replicas_share_the_requests_and_give_the_same_artefacts_as_one(
    served: tuple[ServedReranker, Path], cluster: ClusterCapacity, tmp_path: Path, number: int | str
) -> None:
    resources = SMALL.model_copy(update={"replicas": number, "timeout_s": 200})
    build = partial(WaitsForAnother, tmp_path / "calls")
    with serve_pair_scorer("two", build, resources, cpus=0.25, gpus=0, replicas=2) as handle:
        shared = scored(ServedReranker(handle, resources, replicas=2))

    assert len(list((tmp_path / "replicas").iterdir())) == 2
    assert reranking_files(shared) == reranking_files(scored(served[0]))


class WaitsToGo(WaitsForAnother):
    """A scorer that answers once two replicas have been asked, and `wait ...` when there is a file `go`."""

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        if "wait" in pairs[0][0]:
            wait_until((self.calls.parent / "go").exists, deadline_s=150)
            return SharedWords.score_pairs(self, pairs)
        return super().score_pairs(pairs)


class DiesAtItsStart:
    """A scorer whose first process is killed while it starts. Its row's `query_prompt` is a folder for a mark."""

    def __init__(self, row: RerankerRow, *, device: str, token_budget: int) -> None:
        self._words = SharedWords(Path(row.query_prompt) / "calls")
        if not (marker := Path(row.query_prompt) / "died").exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return self._words.score_pairs(pairs)


def test_a_replica_killed_while_it_starts_is_told_and_the_job_ends_with_the_same_run_files(tmp_path: Path) -> None:
    row = {"name": "dies", "class": f"{__name__}.{DiesAtItsStart.__name__}", "query_prompt": str(tmp_path)}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump({"rerankers": [row]}))
    systems = [{"name": "reranked", "retriever": "bm25", "reranker": {"model": "dies", "depth": 5}}]
    config = write_config(tmp_path / "small.yaml", models="models.yaml", systems=systems, baseline=None)

    disturbed = run_job(config, "--store", tmp_path / "one", "--output", tmp_path / "disturbed", cwd=tmp_path)
    undisturbed = run_job(config, "--store", tmp_path / "two", "--output", tmp_path / "undisturbed", cwd=tmp_path)

    assert (tmp_path / "died").exists()
    said = "reranker .*dies.*: a replica did not start, and another one is started: its process ended"
    assert len(re.findall(said, disturbed.stderr)) == 1
    assert "did not start" not in undisturbed.stderr
    assert len(run_files(tmp_path / "disturbed")) == 1
    assert run_files(tmp_path / "disturbed") == run_files(tmp_path / "undisturbed")


def replicas_running(name: str) -> int:
    states = serve.status().applications[name].deployments["pair-scorer"].replica_states
    return states.get("RUNNING", 0)


def test_a_replica_that_has_nothing_left_to_do_leaves_while_another_scores(
    cluster: ClusterCapacity, tmp_path: Path
) -> None:
    resources = SMALL.model_copy(update={"replicas": "auto", "timeout_s": 200})
    build = partial(WaitsToGo, tmp_path / "calls")
    last = [candidates(Query(query_id="last", text="wait for it"), Document(doc_id="d", text="wait"))]
    with (
        serve_pair_scorer("leaves", build, resources, cpus=0.25, gpus=0, replicas=2) as handle,
        ThreadPoolExecutor() as threads,
    ):
        reranker = ServedReranker(handle, resources, replicas=2)
        scored(reranker)
        assert len(list((tmp_path / "replicas").iterdir())) == 2
        scoring = threads.submit(scored, reranker, last)
        try:
            wait_until(lambda: replicas_running("leaves") == 1, deadline_s=120)
            assert not scoring.done()
        finally:
            (tmp_path / "go").touch()
        assert scoring.result(timeout=120).scores == {"last": [1.0]}
