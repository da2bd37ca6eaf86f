"""A cluster and one process give the same artefacts and rankings, because they call the same functions."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task
from r2med_ray.distributed.preparing import prepare
from r2med_ray.distributed.searching import open_index
from r2med_ray.first_stage import Computing, ShardedFirstStage
from r2med_ray.first_stages.checkpoints import LateInteractionFirstStage
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.preparation import QuerySet
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import ClusterCapacity, Pool
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Run, Task
from r2med_ray.workbench.in_process import InProcess
from tests.word_overlap import OverlapFirstStage, OverlapRow

pytestmark = pytest.mark.ray

COMPUTING = Computing(device="cpu", threads=1)
ONE = Pool(actors=1, cpus=1)
TWO = Pool(actors=2, cpus=0.25)
CATALOG = load_catalog()
FLOAT32 = {"dtype": "float32"}

STAGES: Mapping[str, ShardedFirstStage] = {
    "bm25": LexicalFirstStage(row=BM25_ROWS["bm25"], rules=Rules()),
    "bm25-r2med": LexicalFirstStage(row=BM25_ROWS["bm25-r2med"], rules=Rules.of("r2med")),
    "dense": DenseFirstStage(row=CATALOG.encoders["all-MiniLM-L6-v2"].model_copy(update=FLOAT32), rules=Rules()),
    "token vectors": LateInteractionFirstStage(
        row=CATALOG.late_interaction["minilm-tokens"].model_copy(update=FLOAT32), rules=Rules()
    ),
    "a kind from outside the package": OverlapFirstStage(row=OverlapRow(name="words"), rules=Rules()),
}


def demo_tasks(store: ArtifactStore) -> list[Task]:
    """Two tasks with the same corpus, in one shard and in three shards."""
    [source] = resolve_tasks(["Demo-Cases"])
    return [load_task(source, store, documents_per_shard=100, shards=shards) for shards in (1, 3)]


def on_the_cluster(store: ArtifactStore, tasks: Sequence[Task], first_stage: ShardedFirstStage) -> list[Run]:
    corpora = [(task, first_stage) for task in tasks]
    asked = [QuerySet(task, first_stage, task.queries) for task in tasks]
    made = prepare(store, corpora, asked, COMPUTING, ONE, no_progress_timeout_s=120).corpora
    assert made is not None
    indexes = [open_index(store, task, first_stage, "cpu", TWO) for task in tasks]
    runs = [index.retrieve(task.queries, k=50) for task, index in zip(tasks, indexes, strict=True)]
    for index in indexes:
        index.close()
    assert (made.documents, made.stored_before) == (160, 0)
    return runs


def in_this_process(store: ArtifactStore, tasks: Sequence[Task], first_stage: ShardedFirstStage) -> list[Run]:
    work = InProcess(store, COMPUTING)
    made = work.prepare_shards([(task, first_stage) for task in tasks])
    work.prepare_queries([(task, first_stage, task.queries) for task in tasks])
    indexes = [work.open_index(task, first_stage) for task in tasks]
    runs = [index.retrieve(task.queries, k=50) for task, index in zip(tasks, indexes, strict=True)]
    assert (made.documents, made.stored_before) == (160, 0)
    return runs


def digests(store: ArtifactStore) -> dict[str, dict[str, str]]:
    return {artifact.name: {name: file.sha256 for name, file in artifact.files.items()} for artifact in store.all()}


@pytest.mark.parametrize("name", STAGES)
def test_a_cluster_and_one_process_make_the_same_artefacts_and_the_same_run(
    cluster: ClusterCapacity, tmp_path: Path, name: str
) -> None:
    there, here = ArtifactStore(str(tmp_path / "cluster")), ArtifactStore(str(tmp_path / "process"))
    tasks = demo_tasks(there)
    runs = on_the_cluster(there, tasks, STAGES[name])

    assert [len(task.corpus.shards) for task in tasks] == [1, 3]
    assert runs == in_this_process(here, demo_tasks(here), STAGES[name])
    assert all(any(run.rankings.values()) for run in runs)
    assert digests(there) == digests(here)
