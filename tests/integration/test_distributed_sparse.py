"""Sparse vectors and token vectors over shards in actors give the ranking of one index in this process."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import transformers

from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task, read_shard
from r2med_ray.distributed.preparing import prepare
from r2med_ray.distributed.searching import open_index
from r2med_ray.first_stage import Computing
from r2med_ray.first_stages.checkpoint_making import CheckpointMaker, VectorFormat
from r2med_ray.first_stages.checkpoints import LateInteractionFirstStage, SparseFirstStage
from r2med_ray.first_stages.preparation import QuerySet
from r2med_ray.indexing.compression import Compression
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE, VECTORS_FILE
from r2med_ray.models.catalog.checkpoints import SparseRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import ClusterCapacity, Pool
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Expansion, Query, Run, Task
from r2med_ray.workbench.in_process import InProcess
from tests.unit.tiny_checkpoints import SMALL, save, tokenizer

pytestmark = pytest.mark.ray

COMPUTING = Computing(device="cpu", threads=1)
ONE = Pool(actors=1, cpus=1)
TWO = Pool(actors=2, cpus=0.25)
K = 20


@pytest.fixture(scope="module")
def first_stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SparseFirstStage | LateInteractionFirstStage]:
    """A SPLADE with random weights, and the real token vectors of MiniLM."""
    folder = tmp_path_factory.mktemp("splade")
    config = transformers.BertConfig(**SMALL, max_position_embeddings=512)
    save(folder, "BertForMaskedLM", config, tokenizer())
    splade = SparseRow(name="splade", model=str(folder), max_length=256, max_active_dims=60, dtype="float32")
    tokens = load_catalog().late_interaction["minilm-tokens"].model_copy(update={"dtype": "float32"})
    return {
        "splade": SparseFirstStage(row=splade, rules=Rules()),
        "minilm-tokens": LateInteractionFirstStage(row=tokens, rules=Rules()),
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(str(tmp_path_factory.mktemp("store")))


def demo_task(store: ArtifactStore, shards: int) -> Task:
    [source] = resolve_tasks(["Demo-Posts"])
    return load_task(source, store, documents_per_shard=100, shards=shards)


def rewritten(queries: tuple[Query, ...]) -> tuple[Query, ...]:
    """Return the queries; every third one has an expansion that is longer than the query."""
    text = Expansion(text="A blocked artery starves the heart muscle of oxygen, which hurts. " * 4, method="hyde")
    return tuple(
        Query(query_id=query.query_id, text=query.text, expansions=(text,) if number % 3 == 0 else ())
        for number, query in enumerate(queries)
    )


def one_index(store: ArtifactStore, task: Task, form: VectorFormat, maker: CheckpointMaker) -> Run:
    """Search one index over the whole corpus. The shards are encoded one by one, as actors encode them."""
    loaded = [read_shard(store, shard) for shard in task.corpus.shards]
    shards = [maker.make_shard(task.name, shard.documents, shard.rows)[VECTORS_FILE] for shard in loaded]
    queries = rewritten(task.queries)
    asked = form.read_queries(maker.make_queries(task.name, queries, Rules())[QUERY_VECTORS_FILE])
    key = ArtifactKey("whole", {"rows": [len(shard) for shard in shards], "maker": type(maker).__name__})
    with store.create(key) as writer:
        writer.write_table(VECTORS_FILE, pa.concat_tables(shards))
    found = form.open_index(store.get(key), "float32").search(asked, K)
    return Run(tag="plain", rankings=dict(zip((query.query_id for query in queries), found, strict=True)))


def test_codes_of_tokens_in_actors_find_what_they_find_in_this_process(
    cluster: ClusterCapacity,
    first_stages: dict[str, SparseFirstStage | LateInteractionFirstStage],
    tmp_path: Path,
) -> None:
    store = ArtifactStore(str(tmp_path))
    first_stage = replace(first_stages["minilm-tokens"], compression=Compression(None, "binary", 2))
    task = demo_task(store, 3)
    asked = [QuerySet(task, first_stage, task.queries)]
    list(prepare(store, [(task, first_stage)], asked, COMPUTING, ONE, no_progress_timeout_s=120))
    local = InProcess(store, COMPUTING).open_index(task, first_stage).retrieve(task.queries, k=K)
    retriever = open_index(store, task, first_stage, "cpu", TWO)
    found = retriever.retrieve(task.queries, k=K)
    retriever.close()

    assert found.rankings == local.rankings


@pytest.mark.parametrize("name", ["splade", "minilm-tokens"])
def test_bm05_one_shard_and_three_in_actors_give_the_ranking_of_one_index(
    cluster: ClusterCapacity,
    first_stages: dict[str, SparseFirstStage | LateInteractionFirstStage],
    store: ArtifactStore,
    name: str,
    tmp_path: Path,
) -> None:
    first_stage = first_stages[name]
    maker = first_stage.load(ArtifactStore(str(tmp_path)), COMPUTING)
    assert isinstance(maker, CheckpointMaker)

    def prepared(task: Task) -> list[int]:
        asked = [QuerySet(task, first_stage, rewritten(task.queries))]
        reports = prepare(store, [(task, first_stage)], asked, COMPUTING, ONE, no_progress_timeout_s=120)
        return [report.documents for report in reports if report is not None]

    orders = []
    for shards in (1, 3):
        task = demo_task(store, shards)
        done = prepared(task)
        retriever = open_index(store, task, first_stage, "cpu", TWO)
        run = retriever.retrieve(rewritten(task.queries), k=K)
        retriever.close()

        assert len(task.corpus.shards) == shards
        # The queries don't depend on the shards, so their vectors are made once.
        assert done == [80, len(task.queries) if shards == 1 else 0]
        assert run.rankings == one_index(store, task, first_stage.form, maker).rankings
        assert {len(ranking) for ranking in run.rankings.values()} == {K}
        orders.append({query_id: [hit.doc_id for hit in found] for query_id, found in run.rankings.items()})
        assert prepared(task) == [0, 0]
    assert orders[0] == orders[1]
