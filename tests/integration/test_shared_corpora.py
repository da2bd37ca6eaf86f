"""Tasks and systems that share documents are prepared together, and each finds what it finds alone."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.distributed.preparing import prepare
from r2med_ray.distributed.searching import open_index
from r2med_ray.first_stage import Computing
from r2med_ray.first_stages.preparation import Corpora, QuerySet, Questions
from r2med_ray.settings.pools import Pool
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Run
from r2med_ray.workbench.in_process import InProcess
from tests.http_services import Service, embeddings
from tests.sharing import SHARING
from tests.unit.tasks import entries_that_share, load_all

pytestmark = pytest.mark.ray

COMPUTING = Computing(device="cpu", threads=1)
ONE, TWO = Pool(actors=1, cpus=1), Pool(actors=2, cpus=0.25)
LETTERS = embeddings(lambda text: [1.0 + text.count("a"), text.count("b"), text.count("c")])


class OnCluster:
    """What `InProcess` does, on a cluster."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    def prepare_shards(self, corpora: Corpora) -> Any:
        return prepare(self._store, corpora, [], COMPUTING, ONE, no_progress_timeout_s=120).corpora

    def prepare_queries(self, questions: Questions) -> Any:
        return prepare(self._store, [], questions, COMPUTING, ONE, no_progress_timeout_s=120).queries

    def open_index(self, task: Any, first_stage: Any) -> Any:
        return open_index(self._store, task, first_stage, "cpu", TWO)


def runs(work: Any, sets: Sequence[QuerySet]) -> list[Run]:
    """Search every set in its index."""
    found = []
    for task, first_stage, queries in sets:
        index = work.open_index(task, first_stage)
        found.append(index.retrieve(queries, k=10))
        index.close()
    return found


@pytest.mark.parametrize(
    "work_of", [OnCluster, lambda store: InProcess(store, COMPUTING)], ids=["cluster", "process"]
)
@pytest.mark.parametrize("kind", SHARING)
def test_splits_equal_folders_small_sets_and_systems_together_are_made_once_and_found_as_alone(
    cluster: object, tmp_path: Path, kind: str, work_of: Callable[[ArtifactStore], Any]
) -> None:
    entries = entries_that_share(tmp_path / "collections")
    store = ArtifactStore(str(tmp_path / "together"))
    with Service(LETTERS) as service:
        stages = SHARING[kind].stages(service, tmp_path / "tokenizer")
        sets = [
            QuerySet(task, first_stage, task.queries) for task in load_all(store, entries) for first_stage in stages
        ]
        corpora = [(task, first_stage) for task, first_stage, _ in sets]
        work = work_of(store)
        made, asked = work.prepare_shards(corpora), work.prepare_queries(sets)
        found = runs(work, sets)

        assert (made.documents, made.stored_before) == (7 + 1, 0)
        assert (asked and asked.documents) == SHARING[kind].query_sets
        assert work.prepare_shards(corpora).documents == 0
        for number, (one, run) in enumerate(zip(sets, found, strict=True)):
            other = ArtifactStore(f"{tmp_path}/{number}")
            alone = InProcess(other, COMPUTING)
            task = {task.name: task for task in load_all(other, entries)}[one.task.name]
            alone.prepare_shards([(task, one.first_stage)])
            alone.prepare_queries([one])
            assert any(run.rankings.values())
            assert [run] == runs(alone, [QuerySet(task, one.first_stage, one.queries)])
