"""A shard that is encoded in pieces has the artefact of one that is encoded whole, and loses a piece at most."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_ray.corpus import pieces
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task
from r2med_ray.errors import StageError
from r2med_ray.first_stage import Computing, ShardedFirstStage
from r2med_ray.first_stages.assembling import Gathered, put_together
from r2med_ray.first_stages.bad_documents import LEFT_OUT, key_without_bad
from r2med_ray.first_stages.preparation import shards_left
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task
from r2med_ray.workbench.in_process import InProcess
from tests.failing_models import KINDS, failing_stage
from tests.unit.tasks import task_of

MINILM = DenseFirstStage(row=load_catalog().encoders["all-MiniLM-L6-v2"], rules=Rules())
TEXTS = ["abc", "bcd", "aab", "hhh", "fed", "gag", "cafe"]


@pytest.fixture
def rows_per_piece(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda rows: monkeypatch.setattr(pieces, "PIECE_ROWS", rows)


def made(folder: Path, first_stage: ShardedFirstStage, task_in: Callable[[ArtifactStore], Task]) -> list[Artifact]:
    """Encode a corpus in a store of its own, and return the artefacts of its shards."""
    store = ArtifactStore(str(folder))
    task = task_in(store)
    InProcess(store, Computing()).prepare_shards([(task, first_stage)])
    assert not [name for name in store.names() if "-piece/" in name]
    return [store.get(first_stage.shard_key(task.name, task.corpus, shard, "cpu")) for shard in task.corpus.shards]


def files(artifacts: list[Artifact]) -> list[dict[str, str]]:
    return [{name: stored.sha256 for name, stored in artifact.files.items()} for artifact in artifacts]


def test_vectors_of_pieces_are_those_of_the_shard_byte_for_byte(
    tmp_path: Path, rows_per_piece: Callable[[int], None]
) -> None:
    def task(store: ArtifactStore) -> Task:
        return load_task(resolve_tasks(["Demo-Cases"])[0], store, documents_per_shard=40)

    whole = made(tmp_path / "whole", MINILM, task)
    rows_per_piece(7)  # 6 pieces of each of the two shards of 40 documents
    cut = made(tmp_path / "cut", MINILM, task)

    assert files(cut) == files(whole)
    assert [artifact.name for artifact in cut] == [artifact.name for artifact in whole]
    for ours, theirs in zip(cut, whole, strict=True):
        assert ours.attributes["cuts"] == theirs.attributes["cuts"]
        assert ours.attributes["example"] == theirs.attributes["example"]
        assert [speed["documents"] for speed in ours.attributes["speed"]] == [40]


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_vectors_is_put_together(
    tmp_path: Path, rows_per_piece: Callable[[int], None], kind: str
) -> None:
    whole = made(tmp_path / "whole", failing_stage(kind), lambda store: task_of(store, TEXTS, shards=2))
    rows_per_piece(2)
    cut = made(tmp_path / "cut", failing_stage(kind), lambda store: task_of(store, TEXTS, shards=2))

    assert files(cut) == files(whole)


def test_a_job_that_ends_in_a_shard_goes_on_with_the_pieces_that_are_left(
    store: ArtifactStore, rows_per_piece: Callable[[int], None]
) -> None:
    rows_per_piece(2)
    task, first_stage = task_of(store, [*TEXTS[:4], "boom"], shards=1), failing_stage("sparse")
    with pytest.raises(StageError, match=r"^encode failed on Mine, shard 0, piece 3 of 3: document 'd4': .*boom"):
        InProcess(store, Computing()).prepare_shards([(task, first_stage)])

    # 5 documents are cut into 2, 2 and 1. The first two pieces stay.
    assert len(store.names_of("sparse-vectors-piece")) == 2
    [work] = shards_left(store, [(task, first_stage)], "cpu").work
    found = [store.find(piece.key) is not None for piece in work.in_pieces()]
    assert found == [True, True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_left_out_of_pieces_as_of_the_whole_shard(
    tmp_path: Path, rows_per_piece: Callable[[int], None], kind: str
) -> None:
    first_stage, texts = failing_stage(kind, "skip"), ["abc", "boom", "", "hhh", "fed"]
    found = []
    for name, rows in (("whole", 1000), ("cut", 1)):  # a piece that is one bad document, too
        rows_per_piece(rows)
        store = ArtifactStore(str(tmp_path / name))
        task = task_of(store, texts, shards=1)
        report = InProcess(store, Computing()).prepare_shards([(task, first_stage)])
        key = first_stage.shard_key(task.name, task.corpus, task.corpus.shards[0], "cpu")
        found.append(store.get(key_without_bad(key)))
        assert report.documents == 3  # a piece that was counted isn't counted again with its shard
        assert store.find(key) is None

    assert list(found[1].attributes[LEFT_OUT]) == ["d1", "d2"]
    assert files(found[:1]) == files(found[1:])


def test_only_a_key_whose_vectors_may_depend_on_each_other_tells_pieces(
    store: ArtifactStore, rows_per_piece: Callable[[int], None]
) -> None:
    task = task_of(store, TEXTS, shards=1)
    [shard] = task.corpus.shards

    def keys(device: str) -> list[str]:
        found = []
        for rows in (1000, 3):
            rows_per_piece(rows)
            found.append(MINILM.shard_key("Mine", task.corpus, shard, device))
        assert found[1].inputs.get("pieces") == (None if device == "cpu" else 3)
        return [key.name for key in found]

    assert len(set(keys("cpu"))) == 1
    assert len(set(keys("cuda"))) == 2


def test_a_shard_that_another_job_has_put_together_is_left_alone(
    store: ArtifactStore, rows_per_piece: Callable[[int], None]
) -> None:
    task, first_stage = task_of(store, TEXTS, shards=1), failing_stage("dense")
    rows_per_piece(3)
    [work] = shards_left(store, [(task, first_stage)], "cpu").work
    InProcess(store, Computing()).prepare_shards([(task, first_stage)])

    put_together(store, work)  # its pieces are gone

    assert store.find(work.key) is not None


def test_a_shard_is_put_together_after_the_last_of_its_pieces(
    store: ArtifactStore, rows_per_piece: Callable[[int], None]
) -> None:
    rows_per_piece(3)
    [work] = shards_left(store, [(task_of(store, TEXTS, shards=1), MINILM)], "cpu").work
    first, second, third = work.in_pieces()
    gathered = Gathered()
    numbers = {"documents": 2}

    assert [gathered.finished(piece, numbers)[0] for piece in (third, first)] == [None, None]
    assert gathered.finished(second, numbers) == (work, numbers)
    # A worker that makes all 7 documents after 6 of them were counted adds 1.
    assert gathered.finished(replace(work, is_last_attempt=True), {"documents": 7}) == (None, {"documents": 1})
