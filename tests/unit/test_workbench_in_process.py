"""First stages without Ray: what is stored is left alone, what fails is named, one model serves several rules."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task
from r2med_ray.errors import DataError, StageError, StoppedError
from r2med_ray.first_stage import Computing, Maker
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.preparation import queries_left, shards_left
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.indexing.keys import TERMS_FILE
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Expansion, Task
from r2med_ray.workbench.in_process import InProcess
from tests.damage import flip
from tests.word_overlap import OverlapFirstStage, OverlapRow, WordsMaker

BM25 = LexicalFirstStage(row=BM25_ROWS["bm25"], rules=Rules())
MINILM = DenseFirstStage(
    row=load_catalog().encoders["all-MiniLM-L6-v2"].model_copy(update={"dtype": "float32"}), rules=Rules()
)
OVERLAP = OverlapFirstStage(row=OverlapRow(name="words"), rules=Rules())


@pytest.fixture
def task(store: ArtifactStore) -> Task:
    [source] = resolve_tasks(["Demo-Cases"])
    return load_task(source, store, documents_per_shard=27)


@pytest.fixture
def work(store: ArtifactStore) -> InProcess:
    return InProcess(store, Computing())


def test_what_is_stored_is_left_alone(work: InProcess, task: Task) -> None:
    first, second = work.prepare_shards([(task, BM25)]), work.prepare_shards([(task, BM25)])

    assert (first.documents, first.stored_before) == (80, 0)
    assert (second.documents, second.stored_before) == (0, 3)


def test_what_two_tasks_over_one_corpus_share_is_listed_once(store: ArtifactStore, task: Task) -> None:
    twin = replace(task, name="Twin")

    left = shards_left(store, [(task, MINILM), (twin, MINILM)], "cpu")
    assert [work.unit for work in left.work] == [f"Demo-Cases, shard {index}" for index in range(3)]
    queries = queries_left(store, [(task, MINILM, task.queries), (twin, MINILM, task.queries)], "cpu")
    assert queries is not None
    assert [work.unit for work in queries.work] == ["the queries of Demo-Cases"]


def test_what_two_tasks_or_two_stages_share_is_made_once(work: InProcess, task: Task) -> None:
    twin, variant = replace(task, name="Twin"), replace(BM25, row=BM25.row.with_parameters(k1=2))

    assert BM25.artifact_group == variant.artifact_group
    assert work.prepare_shards([(task, BM25), (twin, BM25), (task, variant)]).documents == 80


def test_a_stage_that_asks_texts_makes_nothing_of_queries(work: InProcess, task: Task) -> None:
    assert work.prepare_queries([(task, BM25, task.queries)]) is None


def test_a_closed_index_holds_nothing(work: InProcess, task: Task) -> None:
    work.prepare_shards([(task, OVERLAP)])
    index = work.open_index(task, OVERLAP)
    before = index.retrieve(task.queries[:1], k=3)
    index.close()

    assert len(before.rankings[task.queries[0].query_id]) == 3
    assert index.retrieve(task.queries[:1], k=3).rankings[task.queries[0].query_id] == ()


def test_the_index_of_bm25_is_made_once_and_read_afterwards(
    store: ArtifactStore, work: InProcess, task: Task
) -> None:
    work.prepare_shards([(task, BM25)])
    made = work.open_index(task, BM25).retrieve(task.queries, k=100)
    for terms in store.all("terms"):
        flip(terms, TERMS_FILE)  # whoever reads them again, fails

    read = InProcess(ArtifactStore(store.uri), Computing()).open_index(task, BM25).retrieve(task.queries, k=100)

    assert len(store.names_of("bm25")) == 3
    assert read == made


class FailsOnShard(WordsMaker):
    """Can't read the shard that begins with some row."""

    def __init__(self, row: OverlapRow, first_row: int) -> None:
        super().__init__(row)
        self._first_row = first_row

    def make_shard(self, task: str, documents: Sequence[Document], rows: Any) -> Mapping[str, pa.Table]:
        if rows[0] == self._first_row:
            raise DataError(f"document {documents[0].doc_id!r} is no text")
        return super().make_shard(task, documents, rows)


class FailingFirstStage(OverlapFirstStage):
    __slots__ = ()

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        return FailsOnShard(self.row, 27)


def test_a_shard_that_fails_is_named_and_those_before_it_stay(work: InProcess, task: Task) -> None:
    with pytest.raises(StageError, match=r"tokenize failed on Demo-Cases, shard 1: document '.*' is no text"):
        work.prepare_shards([(task, FailingFirstStage(row=OVERLAP.row, rules=Rules()))])

    assert work.prepare_shards([(task, OVERLAP)]).stored_before == 1


class StopsAfterOne(threading.Event):
    """Is asked before every shard, and set from the second question on."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: Iterator[bool] = iter((False, True))

    def is_set(self) -> bool:
        return next(self._answers)


def test_work_that_is_told_to_stop_begins_no_further_shard(work: InProcess, task: Task) -> None:
    with pytest.raises(StoppedError):
        work.prepare_shards([(task, OVERLAP)], stop=StopsAfterOne())

    assert work.prepare_shards([(task, OVERLAP)]).stored_before == 1


class AnotherJobBeside(WordsMaker):
    """Makes its first shard while another job makes the other two, from the last on."""

    def __init__(self, row: OverlapRow, store: ArtifactStore, task: Task) -> None:
        super().__init__(row)
        self._others = iter([(InProcess(ArtifactStore(store.uri), Computing()), task)])

    def make_shard(self, task: str, documents: Sequence[Document], rows: Any) -> Mapping[str, pa.Table]:
        for job, of_task in self._others:
            with pytest.raises(StoppedError):
                job.prepare_shards([(of_task, OVERLAP)], from_the_end=True, stop=StopsAfterTwo())
        return super().make_shard(task, documents, rows)


class StopsAfterTwo(StopsAfterOne):
    def __init__(self) -> None:
        super().__init__()
        self._answers = iter((False, False, True))


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStageBesideAnotherJob(OverlapFirstStage):
    task: Task = field(hash=False)

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        return AnotherJobBeside(self.row, store, self.task)


def test_two_jobs_on_one_store_look_again_before_each_shard_and_meet_without_doing_work_twice(
    work: InProcess, task: Task
) -> None:
    report = work.prepare_shards([(task, FirstStageBesideAnotherJob(row=OVERLAP.row, rules=Rules(), task=task))])

    # The shards have 27, 27 and 26 documents. The other job makes the last two while this one makes the first.
    assert (report.documents, report.stored_before) == (27, 2)


def test_stages_that_share_a_model_keep_their_own_rules_for_queries(
    work: InProcess, store: ArtifactStore, task: Task
) -> None:
    ours, published = MINILM, replace(MINILM, rules=Rules.of("r2med"))
    queries = [replace(task.queries[0], expansions=(Expansion(text="a blocked artery", method="query2doc"),))]

    assert ours.artifact_group == published.artifact_group
    work.prepare_queries([(task, ours, queries), (task, published, queries)])
    together = published.prepare(store, task, queries, "cpu")
    alone = InProcess(ArtifactStore(f"{store.uri}/alone"), Computing())
    alone.prepare_queries([(task, published, queries)])

    # The published protocol joins query and text by the six letters `[SEP]`, and ours by a newline.
    assert (together == published.prepare(ArtifactStore(f"{store.uri}/alone"), task, queries, "cpu")).all()
    assert (together != ours.prepare(store, task, queries, "cpu")).any()
