"""Sparse vectors and token vectors over shards in actors: the ranking of one index in this process."""

import pyarrow as pa
import pytest
import transformers

from r2med_ray.settings.pools import ClusterCapacity, Pool, Pools
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task, read_shard
from r2med_ray.distributed.checkpoint_vectors import LATE_INTERACTION, SPARSE, CheckpointEncoding, VectorKind
from r2med_ray.distributed.encode import Embedder, Questions
from r2med_ray.distributed.first_stages import FirstStages
from r2med_ray.distributed.stage_parts import Asked, Workplace
from r2med_ray.settings.config_files import parse_config
from r2med_ray.stages.checkpoints import CheckpointStage
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedBenchmark, resolve
from r2med_ray.types import Expansion, Query, Run, Task
from tests.unit.tiny_checkpoints import SMALL, save, tokenizer

pytestmark = pytest.mark.ray

KINDS = {"splade": SPARSE, "minilm-tokens": LATE_INTERACTION}
ONE = Pool(actors=1, cpus=1)
K = 20


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> ResolvedBenchmark:
    """A SPLADE with random weights, and the real token vectors of MiniLM."""
    folder = tmp_path_factory.mktemp("splade")
    config = transformers.BertConfig(**SMALL, max_position_embeddings=512)
    save(folder / "weights", "BertForMaskedLM", config, tokenizer())
    row = "{name: splade, model: ./weights, max_length: 256, max_active_dims: 60}"
    (folder / "models.yaml").write_text(f"sparse: [{row}]\n")
    values = {
        "name": "x",
        "tasks": ["Demo-Posts"],
        "models": str(folder / "models.yaml"),
        "systems": [{"name": name, "retriever": {"model": name, "dtype": "float32"}} for name in KINDS],
    }
    return resolve(parse_config(values))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    """One store for all tests of this file: a model encodes the corpus once."""
    return ArtifactStore(str(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def first_stages(cluster: ClusterCapacity, benchmark: ResolvedBenchmark, store: ArtifactStore) -> FirstStages:
    pools = Pools(encode=ONE, tokenize=ONE, search=Pool(actors=2, cpus=0.25), rerank=ONE, language_model=ONE)
    return FirstStages(Workplace(store=store, pools=pools, resources=benchmark.config.resources))


def demo_task(store: ArtifactStore, shards: int) -> Task:
    [source] = resolve_tasks(["Demo-Posts"])
    return load_task(source, store, documents_per_shard=100, shards=shards)


def rewritten(queries: tuple[Query, ...]) -> tuple[Query, ...]:
    """Give every third query a text that is longer than the query."""
    text = Expansion(text="A blocked artery starves the heart muscle of oxygen, which hurts. " * 4, method="hyde")
    return tuple(
        Query(query_id=query.query_id, text=query.text, expansions=(text,) if number % 3 == 0 else ())
        for number, query in enumerate(queries)
    )


def one_index(store: ArtifactStore, task: Task, kind: VectorKind[object], model: Embedder) -> Run:
    """Search one index over the whole corpus, whose shards are encoded one by one, as actors do it."""
    shards = [model.embed_documents(task.name, read_shard(store, shard)) for shard in task.corpus.shards]
    queries = rewritten(task.queries)
    asked = kind.read_queries(model.embed_queries(Questions(task=task, queries=queries, compat="none")))
    found = kind.build_index(pa.concat_tables(shards)).search(asked, K)
    return Run(tag="plain", rankings=dict(zip((query.query_id for query in queries), found, strict=True)))


@pytest.mark.parametrize("name", KINDS)
def test_bm05_one_shard_and_three_in_actors_give_the_ranking_of_one_index(
    benchmark: ResolvedBenchmark, first_stages: FirstStages, store: ArtifactStore, name: str
) -> None:
    [stage] = [system.first_stages[0] for system in benchmark.systems if system.name == name]
    assert isinstance(stage, CheckpointStage)
    encoding = CheckpointEncoding(kind=KINDS[name], stage=stage, device="cpu", token_budget=16_384)
    model = encoding.load(threads=1)
    orders = []
    for shards in (1, 3):
        task = demo_task(store, shards)
        asked = [Asked(task=task, stage=stage, queries=rewritten(task.queries))]
        done = [(what, report.documents) for what, _, report in first_stages.prepare(asked)]
        retriever = first_stages.open(task, stage)
        run = retriever.retrieve(rewritten(task.queries), k=K)
        retriever.close()

        assert len(task.corpus.shards) == shards
        # The queries are the same whatever the shards, so their vectors are made once.
        assert done == [("encode", 80), ("encode queries", len(task.queries) if shards == 1 else 0)]
        assert run.rankings == one_index(store, task, KINDS[name], model).rankings
        assert {len(ranking) for ranking in run.rankings.values()} == {K}
        orders.append({query_id: [hit.doc_id for hit in found] for query_id, found in run.rankings.items()})
        again = [(what, report.documents) for what, _, report in first_stages.prepare(asked)]
        assert again == [("encode", 0), ("encode queries", 0)]
    assert orders[0] == orders[1]
