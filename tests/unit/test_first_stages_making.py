"""A shard or a query that fails is tried again once, and then its document or query is named, or left out."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from r2med_ray.errors import StageError
from r2med_ray.first_stage import Computing, ShardedFirstStage
from r2med_ray.first_stages.bad_documents import LEFT_OUT, key_without_bad, left_out_of
from r2med_ray.indexing.embedding import read_vectors
from r2med_ray.indexing.keys import VECTORS_FILE
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Query, Task
from r2med_ray.workbench.in_process import InProcess
from tests.failing_models import KINDS, failing_stage
from tests.unit.tasks import task_of

GOOD = ("abc", "bcd", "aab", "hhh")


@pytest.fixture
def work(store: ArtifactStore) -> InProcess:
    return InProcess(store, Computing())


def with_bad(*bad: str) -> list[str]:
    """Return good texts with bad ones among them: documents d1, d3, ... are the bad ones."""
    return [text for pair in zip(GOOD, (*bad, *GOOD), strict=False) for text in pair]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("", "'d1'.* has no tokens: ''"),
        ("nan", "'d1'"),
        ("boom", r"document 'd1': .*RuntimeError: boom"),
    ],
    ids=["no tokens", "not finite", "its own error"],
)
def test_a_document_that_fails_alone_is_named_with_task_and_shard(
    work: InProcess, store: ArtifactStore, kind: str, bad: str, message: str
) -> None:
    task = task_of(store, with_bad(bad), shards=2)
    with pytest.raises(StageError, match=rf"^encode failed on Mine, shard 0: .*{message}") as caught:
        work.prepare_shards([(task, failing_stage(kind))])

    assert "position" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_that_passes_is_tried_again_and_leaves_no_trace(
    work: InProcess, store: ArtifactStore, tmp_path: Path, kind: str
) -> None:
    tried = tmp_path / "tried"
    tried.mkdir()
    task = task_of(store, [*GOOD, f"once {tried}"], shards=1)

    assert work.prepare_shards([(task, failing_stage(kind))]).documents == 5
    assert [int(file.name) for file in tried.iterdir()] == [os.getpid()]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_is_listed_and_no_index_sees_it(work: InProcess, store: ArtifactStore, kind: str) -> None:
    task = task_of(store, with_bad("", "nan", "boom"), shards=1)
    first_stage = failing_stage(kind, "skip")
    made = work.prepare_shards([(task, first_stage)])

    # d1, d3 and d5 of eight documents
    assert made.documents == 5
    [key] = keys(first_stage, task)
    assert store.find(key) is None
    stored = store.get(key_without_bad(key))
    assert stored.table(VECTORS_FILE)["doc_id"].to_pylist() == ["d0", "d2", "d4", "d6", "d7"]
    assert stored.table(VECTORS_FILE)["row"].to_pylist() == [0, 2, 4, 6, 7]
    causes = stored.attributes[LEFT_OUT]
    assert list(causes) == ["d1", "d3", "d5"]
    for doc_id, cause in {"d1": "has no tokens", "d3": "not finite", "d5": "RuntimeError: boom"}.items():
        assert cause in causes[doc_id]
    assert left_out_of(store, [first_stage], task, "cpu") == {"letters": causes}
    work.prepare_queries([(task, first_stage, task.queries)])
    run = work.open_index(task, first_stage).retrieve(task.queries, k=100)
    assert {hit.doc_id for hit in run.rankings["q"]} <= {"d0", "d2", "d4", "d6", "d7"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_neither_pays_for_what_is_left_out_nor_forgets_it(
    work: InProcess, store: ArtifactStore, kind: str
) -> None:
    task, first_stage = task_of(store, with_bad("boom"), shards=2), failing_stage(kind, "skip")
    first = work.prepare_shards([(task, first_stage)])
    before = left_out_of(store, [first_stage], task, "cpu")
    second = work.prepare_shards([(task, first_stage)])

    # Three of the four documents of the first shard, and four of the second.
    assert (first.documents, first.stored_before) == (7, 0)
    assert (second.documents, second.stored_before) == (0, 2)
    assert before == left_out_of(store, [first_stage], task, "cpu") != {}


def test_vectors_without_a_document_are_those_of_a_corpus_without_it(work: InProcess, store: ArtifactStore) -> None:
    whole, lacking = task_of(store, GOOD, shards=1), task_of(store, [*GOOD, "boom"], shards=1)
    work.prepare_shards([(whole, failing_stage("dense")), (lacking, failing_stage("dense", "skip"))])
    [whole_key], [key] = keys(failing_stage("dense"), whole), keys(failing_stage("dense"), lacking)

    vectors = [read_vectors(store.get(one).table(VECTORS_FILE)) for one in (whole_key, key_without_bad(key))]
    assert vectors[0].vectors.tobytes() == vectors[1].vectors.tobytes()
    assert vectors[0].doc_ids == vectors[1].doc_ids


@pytest.mark.parametrize("kind", KINDS)
def test_error_never_reads_what_skip_has_left_out(work: InProcess, store: ArtifactStore, kind: str) -> None:
    task = task_of(store, with_bad("boom"), shards=1)
    skipping, strict = failing_stage(kind, "skip"), failing_stage(kind)
    work.prepare_shards([(task, skipping)])

    assert skipping.inputs(task, "cpu") != strict.inputs(task, "cpu")
    with pytest.raises(StageError, match="document 'd1'"):
        work.prepare_shards([(task, strict)])


def test_skip_takes_what_error_has_made_whole(work: InProcess, store: ArtifactStore) -> None:
    task = task_of(store, GOOD, shards=2)
    work.prepare_shards([(task, failing_stage("dense"))])

    assert work.prepare_shards([(task, failing_stage("dense", "skip"))]).stored_before == 2


def test_too_many_bad_documents_are_never_left_out(work: InProcess, store: ArtifactStore) -> None:
    # 5 % of 40 documents are 2, so the limit is 10 documents.
    for bad in (10, 11):
        task = task_of(store, ["boom"] * bad + ["abc"] * (40 - bad), shards=1, name=f"With-{bad}")
        if bad == 10:
            assert work.prepare_shards([(task, failing_stage("dense", "skip"))]).documents == 30
        else:
            with pytest.raises(StageError, match=r"more than 10 of 40 documents can't be encoded.* document 'd0'"):
                work.prepare_shards([(task, failing_stage("dense", "skip"))])


def test_a_model_that_fails_on_everything_blames_no_document(work: InProcess, store: ArtifactStore) -> None:
    task = task_of(store, ["boom"] * 4, shards=1)
    for on_bad_document in ("error", "skip"):
        with pytest.raises(StageError, match=r"neither document 'd0' nor document 'd3' works, even alone: .*boom"):
            work.prepare_shards([(task, failing_stage("dense", on_bad_document))])


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_that_fails_alone_is_named_with_its_task(work: InProcess, store: ArtifactStore, kind: str) -> None:
    asked = [Query(query_id=f"q{number}", text=text) for number, text in enumerate(with_bad("boom"))]
    task = replace(task_of(store, GOOD, shards=1), queries=tuple(asked))
    for on_bad_document in ("error", "skip"):
        with pytest.raises(
            StageError, match=r"encode failed on the queries of Mine: query 'q1': .*RuntimeError: boom"
        ):
            work.prepare_queries([(task, failing_stage(kind, on_bad_document), task.queries)])


def test_queries_are_tried_again_once_and_the_sets_before_them_stay(
    work: InProcess, store: ArtifactStore, tmp_path: Path
) -> None:
    tried = tmp_path / "tried"
    tried.mkdir()
    task, first_stage = task_of(store, GOOD, shards=1), failing_stage("dense")
    sets = [(task, first_stage, [Query(query_id="q", text=text)]) for text in ("abc", f"once {tried}", "hhh")]
    made = work.prepare_queries(sets)

    assert made is not None
    assert (made.documents, made.stored_before) == (3, 0)


def test_a_store_that_cannot_be_written_to_blames_no_document(store: ArtifactStore, monkeypatch) -> None:
    task = task_of(store, GOOD, shards=1)

    def full(self: object, name: str, table: pa.Table) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("r2med_ray.storage.artifacts.ArtifactWriter.write_table", full)
    with pytest.raises(StageError, match=r"^encode failed on Mine, shard 0: OSError: .*No space left on device"):
        InProcess(store, Computing()).prepare_shards([(task, failing_stage("dense", "skip"))])


def keys(first_stage: ShardedFirstStage, task: Task) -> Sequence:
    return [first_stage.shard_key(task.name, task.corpus, shard, "cpu") for shard in task.corpus.shards]
