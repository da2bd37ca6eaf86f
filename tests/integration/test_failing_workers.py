"""What fails inside a worker is tried again on another, and then named: by task, shard and document or query."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ray

from r2med_ray.corpora import CorpusShard
from r2med_ray.corpus import pieces
from r2med_ray.distributed.artifact_worker import ArtifactWorker
from r2med_ray.distributed.failures import stage_error
from r2med_ray.distributed.preparing import prepare
from r2med_ray.distributed.searching import ShardedRetriever, open_index
from r2med_ray.distributed.shard_stream import stream_work
from r2med_ray.errors import DataError, StageError
from r2med_ray.evaluation.trec import write_run
from r2med_ray.first_stage import Computing, Maker, ShardedFirstStage
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.preparation import QuerySet, Questions, queries_left, shards_left
from r2med_ray.first_stages.stored_speed import SPEED
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.protocols import Index
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import Pool
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.listing import SECONDS
from r2med_ray.types import Query, Ranking, Task
from r2med_ray.workbench.in_process import InProcess
from tests.failing_models import KINDS, SparseLettersFirstStage, fail_once, failing_stage
from tests.unit.tasks import TEXTS, task_of

pytestmark = pytest.mark.ray

COMPUTING = Computing(device="cpu", threads=1)
ONE, TWO = Pool(actors=1, cpus=1), Pool(actors=2, cpus=0.25)
RAYS_WORDS = ("DataContext", "RAY_", "ray stop", "https://", "max_errored_blocks", "UDF", "Traceback")


def encode(store: ArtifactStore, task: Task, first_stage: ShardedFirstStage) -> Any:
    return prepare(store, [(task, first_stage)], [], COMPUTING, ONE, no_progress_timeout_s=120).corpora


def encode_queries(store: ArtifactStore, sets: Questions, pool: Pool = ONE, timeout_s: int = 120) -> Any:
    return prepare(store, [], sets, COMPUTING, pool, no_progress_timeout_s=timeout_s).queries


@pytest.fixture
def tried(tmp_path: Path) -> Path:
    """A folder in which processes leave their numbers, see `fail_once`."""
    folder = tmp_path / "tried"
    folder.mkdir()
    return folder


def digests(store: ArtifactStore) -> dict[str, Any]:
    """All that is stored, except how fast and how long it was made."""
    return {
        artifact.name: (
            {name: file.sha256 for name, file in artifact.files.items()},
            {name: value for name, value in artifact.attributes.items() if name not in (SPEED, SECONDS)},
        )
        for artifact in store.all()
    }


def test_a_model_that_fails_once_is_tried_again_in_another_process(
    cluster: object, store: ArtifactStore, tried: Path
) -> None:
    task = task_of(store, [*TEXTS, f"once {tried}"], shards=4)

    assert encode(store, task, failing_stage("dense")).documents == len(TEXTS) + 1
    assert len({file.name for file in tried.iterdir()}) == 2


def test_queries_that_fail_once_are_tried_again_in_another_process(
    cluster: object, store: ArtifactStore, tried: Path
) -> None:
    task, first_stage = task_of(store, TEXTS, shards=1), failing_stage("dense")
    texts = ("abc", f"once {tried}", "hhh")
    sets = [QuerySet(task, first_stage, [Query(query_id="q", text=text)]) for text in texts]
    report = encode_queries(store, sets)

    assert report is not None
    assert report.documents == 3
    assert len({file.name for file in tried.iterdir()}) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_that_always_fails_is_named_without_rays_words(
    cluster: object, store: ArtifactStore, kind: str
) -> None:
    task = task_of(store, [*TEXTS[:4], "boom", *TEXTS[4:]], shards=2)
    with pytest.raises(StageError, match=r"^encode failed on Mine, shard 1: document 'd4': .*boom") as caught:
        encode(store, task, failing_stage(kind))

    assert not [word for word in RAYS_WORDS if word in str(caught.value)]


def test_a_query_that_always_fails_is_named_without_rays_words(cluster: object, store: ArtifactStore) -> None:
    task = task_of(store, TEXTS, shards=1)
    queries = [Query(query_id="good", text="abc"), Query(query_id="bad", text="boom")]
    with pytest.raises(StageError, match=r"^encode failed on the queries of Mine: query 'bad': .*boom") as caught:
        encode_queries(store, [QuerySet(task, failing_stage("dense"), queries)])

    assert not [word for word in RAYS_WORDS if word in str(caught.value)]


def test_queries_that_no_node_has_room_for_end_at_the_deadline_with_what_there_is(
    cluster: object, store: ArtifactStore
) -> None:
    task = task_of(store, TEXTS, shards=1)
    queries = [Query(query_id="q", text="abc")]
    too_large = Pool(actors=1, cpus=64)
    with pytest.raises(StageError) as caught:
        encode_queries(store, [QuerySet(task, failing_stage("dense"), queries)], too_large, timeout_s=2)

    assert str(caught.value) == (
        "encode failed on the queries of Mine: nothing was finished for 2 s, the limit "
        "`resources.no_progress_timeout_s`. "
        "The cluster has 1 node(s), 2 CPUs, 0 GPUs"
    )


@pytest.mark.parametrize(("kind", "rows_per_piece"), [*((kind, 1000) for kind in KINDS), ("sparse", 1)])
def test_a_cluster_leaves_out_what_one_process_leaves_out(
    cluster: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, rows_per_piece: int
) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", rows_per_piece)
    there, here = ArtifactStore(str(tmp_path / "cluster")), ArtifactStore(str(tmp_path / "process"))
    texts, first_stage = [*TEXTS[:4], "boom", "", "nan", *TEXTS[4:]], failing_stage(kind, "skip")
    # d4 is in the first of two shards of five documents, and d5 and d6 are in the second.
    assert encode(there, task_of(there, texts, shards=2), first_stage).documents == 7
    assert InProcess(here, COMPUTING).prepare_shards([(task_of(here, texts, shards=2), first_stage)]).documents == 7

    def without_lines(store: ArtifactStore) -> dict[str, Any]:
        return {name: (files, sorted(notes.get("left_out", {}))) for name, (files, notes) in digests(store).items()}

    assert without_lines(there) == without_lines(here)
    assert encode(there, task_of(there, texts, shards=2), first_stage).documents == 0


def test_ry05_a_document_that_ends_its_process_each_time_ends_the_job_and_no_other_shard_is_lost(
    cluster: object, store: ArtifactStore
) -> None:
    # Shard 2 of 3 has the seventh to the ninth document, and its process ends at the eighth.
    task = task_of(store, [*TEXTS, "end", "bead"], shards=3)
    with pytest.raises(StageError) as caught:
        encode(store, task, failing_stage("dense"))

    said = str(caught.value)
    assert said.startswith(
        "encode failed on Mine, shard 2: the process that worked on the documents 'd6' to 'd8' ended"
    )
    assert not [word for word in RAYS_WORDS if word in said]
    assert [work.shard.index for work in shards_left(store, [(task, failing_stage("dense"))], "cpu").work] == [2]


def test_a_document_that_ends_the_first_process_is_encoded_by_the_next(
    cluster: object, store: ArtifactStore, tried: Path
) -> None:
    task = task_of(store, [*TEXTS, f"end-once {tried}"], shards=4)

    assert encode(store, task, failing_stage("dense")).documents == len(TEXTS) + 1
    assert len(list(tried.iterdir())) == 2


def test_queries_that_end_their_process_each_time_are_named_and_the_sets_before_them_are_kept(
    cluster: object, store: ArtifactStore
) -> None:
    task, first_stage = task_of(store, TEXTS, shards=1), failing_stage("dense")
    sets = [QuerySet(task, first_stage, [Query(query_id=text, text=text)]) for text in ("abc", "end", "hhh")]
    with pytest.raises(StageError) as caught:
        encode_queries(store, sets)

    said = "encode failed on the queries of Mine: the process that worked on the queries 'end' to 'end' ended, "
    assert str(caught.value).startswith(said)
    left = queries_left(store, sets, "cpu")
    assert left is not None
    # The set after it may be finished or not, whichever comes first.
    assert {"end"} <= {query.query_id for work in left.work for query in work.queries} <= {"end", "hhh"}


class EndsItsProcess(SparseLettersFirstStage):
    """A first stage whose model ends the process that loads it."""

    __slots__ = ()

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        os._exit(1)


def test_a_model_that_ends_its_process_while_it_loads_is_not_loaded_without_end(
    cluster: object, store: ArtifactStore
) -> None:
    row = failing_stage("sparse").row
    with pytest.raises(StageError, match="the process of a worker ended while it was built"):
        encode(store, task_of(store, TEXTS, shards=2), EndsItsProcess(row=row, rules=Rules()))  # type: ignore[arg-type]


class PathThatEndsItsReader(str):
    """A path whose file can't be opened by a process: it ends."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        os._exit(1)


def test_a_shard_that_ends_the_process_that_reads_it_is_named(cluster: object, store: ArtifactStore) -> None:
    task, first_stage = task_of(store, TEXTS, shards=3), failing_stage("dense")
    work = shards_left(store, [(task, first_stage)], "cpu").work
    work[1] = replace(work[1], shard=replace(work[1].shard, path=PathThatEndsItsReader(work[1].shard.path)))
    worker = partial(ArtifactWorker, store, first_stage, COMPUTING)
    with pytest.raises(StageError, match=r"^encode failed on Mine, shard 1: the process that read the shard ended, "):
        list(stream_work("encode", store, work, worker, pool=ONE, no_progress_timeout_s=120))


class NeverBuilt(SparseLettersFirstStage):
    """A first stage whose model can't be built on a worker."""

    __slots__ = ()

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        raise DataError("no weights at https://example.org/weights")


def test_a_model_that_cannot_be_built_says_so_in_its_own_words(cluster: object, store: ArtifactStore) -> None:
    row = failing_stage("sparse").row
    with pytest.raises(StageError) as caught:
        encode(store, task_of(store, TEXTS, shards=2), NeverBuilt(row=row, rules=Rules()))  # type: ignore[arg-type]

    assert str(caught.value) == "encode failed on one of 2 shards: no weights at https://example.org/weights"


def test_a_shard_whose_file_is_damaged_is_named(cluster: object, store: ArtifactStore) -> None:
    task = task_of(store, TEXTS, shards=2)
    path = Path(task.corpus.shards[1].path)
    path.write_bytes(b"no Parquet at all")
    with pytest.raises(StageError, match=r"^encode failed on Mine, shard 1: corpus .* gc --damaged`") as caught:
        encode(store, task, failing_stage("dense"))

    assert not [word for word in RAYS_WORDS if word in str(caught.value)]


def test_a_worker_whose_memory_ran_out_is_told_what_to_set_in_the_benchmark_file() -> None:
    said = "Task was killed. To adjust the kill threshold, set the environment variable `RAY_memory_usage_threshold`."
    error = stage_error("encode", "T, shard 3", ray.exceptions.OutOfMemoryError(said))

    assert str(error).startswith("encode failed on T, shard 3: the memory of a node ran out")
    assert not [word for word in RAYS_WORDS if word in str(error)]


class FailsOnce:
    """An index that fails at its first search of all, and then finds nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def search(self, queries: Sequence[Query], k: int) -> list[Ranking]:
        fail_once(self._folder)
        return [()] * len(queries)


def fails_once(folder: Path, shard: CorpusShard) -> Index[Sequence[Query]]:
    return FailsOnce(folder)


def test_a_search_that_fails_once_is_asked_of_another_actor(cluster: object, tried: Path) -> None:
    shards = [CorpusShard(index=0, path="", start_row=0, num_rows=1, digest="")]
    retriever = ShardedRetriever("tiny", list, partial(fails_once, tried), shards, TWO, drop_identical_ids=False)
    run = retriever.retrieve([Query(query_id="q", text="abc")], k=3)
    retriever.close()

    assert run.rankings == {"q": ()}
    assert len(list(tried.iterdir())) == 2


def actors_of(retriever: ShardedRetriever[Any]) -> list[Any]:
    return [part.actor for part in retriever._parts]


def process_of(actor: Any) -> int:
    return int(ray.get(actor.__ray_call__.remote(lambda owner: os.getpid())))


BIG = [f"word{number} fever abc{number % 7} cough" * 3 for number in range(30_000)]
"""30,000 different words: their counts, which every actor is started with, take far more than the 100 kB up to which
Ray sends arguments along."""


@pytest.mark.parametrize("killed", ["one actor", "all actors"])
def test_shard_actors_killed_while_they_search_leave_the_same_run_file_byte_for_byte(
    cluster: object, tmp_path: Path, killed: str
) -> None:
    store = ArtifactStore(str(tmp_path / "store"))
    task = task_of(store, BIG, shards=4)
    bm25 = LexicalFirstStage(row=BM25_ROWS["bm25"], rules=Rules())
    InProcess(store, COMPUTING).prepare_shards([(task, bm25)])
    queries = [Query(query_id=f"q{number}", text=f"word{number} abc{number % 7} fever") for number in range(400)]
    retriever = open_index(store, task, bm25, "cpu", TWO)

    def search(name: str) -> None:
        write_run(tmp_path / name, replace(retriever.retrieve(queries, k=20), tag="bm25"))

    try:
        search("undisturbed")
        processes = [process_of(actor) for actor in actors_of(retriever)]
        killing = KillSoon(processes[:1] if killed == "one actor" else processes)
        killing.start()
        search("disturbed")
        assert not killing.is_alive()
        assert process_of(actors_of(retriever)[0]) not in processes
        search("afterwards")
    finally:
        retriever.close()

    undisturbed = (tmp_path / "undisturbed").read_bytes()
    assert undisturbed.count(b"\n") == 400 * 20
    assert (tmp_path / "disturbed").read_bytes() == undisturbed
    assert (tmp_path / "afterwards").read_bytes() == undisturbed


class KillSoon(threading.Thread):
    """Stops processes at once, so that they answer nothing any more, and kills them a moment after it was started."""

    def __init__(self, processes: Sequence[int]) -> None:
        super().__init__()
        self._processes = processes
        for process in processes:
            os.kill(process, signal.SIGSTOP)

    def run(self) -> None:
        time.sleep(0.1)
        for process in self._processes:
            os.kill(process, signal.SIGKILL)
