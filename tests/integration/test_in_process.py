"""Shard actors on a cluster and one process call the same callables: the same artefacts, the same rankings."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task
from r2med_ray.distributed.preparing import prepare_queries, prepare_shards
from r2med_ray.distributed.searching import open_index
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.protocols import Computing, ShardedStage
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import ClusterCapacity, Pool
from r2med_ray.stages.checkpoints import LateInteractionStage
from r2med_ray.stages.lexical import LexicalStage
from r2med_ray.stages.vectors import DenseStage
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Run, Task
from r2med_ray.workbench.in_process import InProcess
from tests.word_overlap import OverlapRow, OverlapStage

pytestmark = pytest.mark.ray

COMPUTING = Computing(device="cpu", threads=1)
ONE = Pool(actors=1, cpus=1)
TWO = Pool(actors=2, cpus=0.25)
CATALOG = load_catalog()
FLOAT32 = {"dtype": "float32"}

STAGES: Mapping[str, ShardedStage] = {
    "bm25": LexicalStage(row=BM25_ROWS["bm25"], rules=Rules()),
    "bm25-r2med": LexicalStage(row=BM25_ROWS["bm25-r2med"], rules=Rules.of("r2med")),
    "dense": DenseStage(row=CATALOG.encoders["all-MiniLM-L6-v2"].model_copy(update=FLOAT32), rules=Rules()),
    "token vectors": LateInteractionStage(
        row=CATALOG.late_interaction["minilm-tokens"].model_copy(update=FLOAT32), rules=Rules()
    ),
    "a kind from outside the package": OverlapStage(row=OverlapRow(name="words"), rules=Rules()),
}


def demo_task(store: ArtifactStore, shards: int) -> Task:
    [source] = resolve_tasks(["Demo-Cases"])
    return load_task(source, store, documents_per_shard=100, shards=shards)


def on_the_cluster(store: ArtifactStore, task: Task, stage: ShardedStage) -> Run:
    made = prepare_shards(store, [(task, stage)], COMPUTING, ONE, no_progress_timeout_s=120)
    prepare_queries(store, [(task, stage, task.queries)], COMPUTING, ONE)
    index = open_index(store, task, stage, "cpu", TWO)
    run = index.retrieve(task.queries, k=50)
    index.close()
    assert (made.documents, made.stored_before) == (80, 0)
    return run


def in_this_process(store: ArtifactStore, task: Task, stage: ShardedStage) -> Run:
    work = InProcess(store, COMPUTING)
    made = work.prepare_shards([(task, stage)])
    work.prepare_queries([(task, stage, task.queries)])
    index = work.open_index(task, stage)
    run = index.retrieve(task.queries, k=50)
    index.close()
    assert (made.documents, made.stored_before) == (80, 0)
    return run


def digests(store: ArtifactStore) -> dict[str, dict[str, str]]:
    return {artifact.name: {name: file.sha256 for name, file in artifact.files.items()} for artifact in store.all()}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", STAGES)
def test_a_cluster_and_one_process_make_the_same_artefacts_and_the_same_run(
    cluster: ClusterCapacity, tmp_path: Path, name: str, shards: int
) -> None:
    there, here = ArtifactStore(str(tmp_path / "cluster")), ArtifactStore(str(tmp_path / "process"))
    tasks = [demo_task(store, shards) for store in (there, here)]

    ours = on_the_cluster(there, tasks[0], STAGES[name])
    assert len(tasks[0].corpus.shards) == shards
    assert ours == in_this_process(here, tasks[1], STAGES[name])
    assert sum(map(len, ours.rankings.values())) > 0
    assert digests(there) == digests(here)
