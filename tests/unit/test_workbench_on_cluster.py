"""The CPUs and GPUs that the parts of a benchmark reserve are worked out before anything is started."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.distributed import asking_nodes
from r2med_ray.distributed.ceilings import named_by
from r2med_ray.distributed.growing import NodeRequests
from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.models.at_hand import gpu_memory_gb
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.serving.metrics import CountedTexts
from r2med_ray.settings.config_files import parse_config
from r2med_ray.settings.pools import ClusterCapacity, Node
from r2med_ray.settings.resources import ClusterConfig, NodeShape, ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import resolve
from r2med_ray.types import Task
from r2med_ray.workbench import on_cluster
from r2med_ray.workbench.ledger import Holder, Need, fits_beside
from r2med_ray.workbench.on_cluster import ClusterRunner
from r2med_ray.workbench.worklog import Worklog

LAPTOP = ClusterCapacity(nodes=(Node(cpus=2),))
ONE_GPU = ClusterCapacity(nodes=(Node(cpus=16, gpus=1),))


TWO_GPUS = ClusterCapacity(nodes=(Node(cpus=4), Node(cpus=16, gpus=1), Node(cpus=16, gpus=1)))


def runner(folder: Path, capacity: ClusterCapacity, cluster: ClusterConfig | None = None) -> ClusterRunner:
    store = ArtifactStore(str(folder / "store"))
    capacity = named_by(cluster) if cluster else capacity
    return ClusterRunner("test", load_catalog(), store, ResourcesConfig(), capacity, Worklog())


def row(folder: Path, **values: Any) -> LanguageModelRow:
    (folder / "config.json").write_text("{}")
    return LanguageModelRow.model_validate({"name": "m", "model": str(folder), **values})


def has_room(asked: ClusterRunner, model: LanguageModelRow, need: Need) -> bool:
    return fits_beside(asked.capacity, [Holder(name="model", need=asked.writing(model))], need)


def test_there_is_room_for_what_the_engine_and_its_ingress_leave(tmp_path: Path) -> None:
    asked, model = runner(tmp_path, LAPTOP), row(tmp_path)

    # Of 2 CPUs, the engine takes 1 and the ingress a quarter.
    assert has_room(asked, model, Need(cpus=0.75))
    assert not has_room(asked, model, Need(cpus=1.0))


def test_an_encoder_waits_for_the_only_gpu(tmp_path: Path) -> None:
    asked, encoder = runner(tmp_path, ONE_GPU), Need(cpus=1.5, gpus=1)

    assert fits_beside(asked.capacity, [], encoder)
    assert not has_room(asked, row(tmp_path), encoder)


def test_a_model_that_the_cluster_can_never_hold_is_not_at_hand(tmp_path: Path) -> None:
    asked = runner(tmp_path, ONE_GPU)
    with pytest.raises(NotAtHand, match=r"reserves 2 × 1 GPU, 2 in all; the cluster has 1") as failure:
        asked.require(row(tmp_path, engine={"tensor_parallel_size": 2}))

    assert failure.value.what == "2 × 1 GPU for m"


def test_an_engine_that_cannot_start_is_refused_before_it_starts(tmp_path: Path) -> None:
    asked, model = runner(tmp_path, LAPTOP), row(tmp_path, engine={"max_model_len": 4096})
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 512}')
    with pytest.raises(ConfigError, match="max_model_len 4096 is more than the 512 positions"):
        asked.require(model)


def of_16_gb(folder: Path) -> LanguageModelRow:
    model = row(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 16 * 2**30}}))
    return model


TOO_LARGE = r"would take 16\.0 GB of weights, and the device has 12\.0 GB"


def test_an_engine_is_checked_against_the_gpus_of_nodes_that_are_not_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[Any] = []

    def answer(*question: Any) -> float:
        asked_for.append(question)
        return 12.0

    monkeypatch.setattr(asking_nodes, "most_of_any_node", answer)
    asked = runner(tmp_path, TWO_GPUS)
    for _ in range(2):
        with pytest.raises(ConfigError, match=TOO_LARGE):
            asked.require(of_16_gb(tmp_path))

    assert asked_for == [(gpu_memory_gb, "GPU")]


def test_nodes_that_came_for_an_engine_are_asked_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NodeRequests, "held", lambda *waiting, **limits: nullcontext())
    monkeypatch.setattr(on_cluster, "capacity_now", lambda: TWO_GPUS)
    monkeypatch.setattr(asking_nodes, "most_of_any_node", lambda read, resource: 12.0)
    asked = runner(tmp_path, LAPTOP, ClusterConfig(nodes=(NodeShape(cpus=16, gpus=1, max=2),)))

    asked.require(of_16_gb(tmp_path))  # a node with a larger GPU may come
    with pytest.raises(ConfigError, match=TOO_LARGE):
        asked.start_model(of_16_gb(tmp_path))


def test_gpus_that_a_plan_only_imagines_are_not_asked() -> None:
    assert asking_nodes.largest_gpu_gb(TWO_GPUS) is None


@pytest.mark.parametrize(("sizes", "is_refused"), [((12, 15), True), ((12, 80), False)])
def test_an_engine_is_checked_against_the_largest_gpu_that_the_benchmark_file_describes(
    tmp_path: Path, sizes: tuple[float, ...], is_refused: bool
) -> None:
    nodes = tuple(NodeShape(cpus=16, gpus=1, gpu_memory_gb=size) for size in sizes)
    asked = runner(tmp_path, LAPTOP, ClusterConfig(nodes=(NodeShape(cpus=2), *nodes)))
    if not is_refused:
        asked.require(of_16_gb(tmp_path))
        return
    with pytest.raises(ConfigError, match=r"would take 16\.0 GB of weights, and the device has 15\.0 GB"):
        asked.require(of_16_gb(tmp_path))


def test_a_model_with_an_address_reserves_nothing(tmp_path: Path) -> None:
    asked = runner(tmp_path, LAPTOP)
    elsewhere = row(tmp_path, base_url="http://127.0.0.1:1/v1", engine={"tensor_parallel_size": 8})
    asked.require(elsewhere)

    assert asked.writing(elsewhere) == Need()
    assert isinstance(asked.start_model(elsewhere).generator(elsewhere), CountedTexts)


def test_two_rows_of_one_model_share_an_engine_unless_they_start_it_otherwise(tmp_path: Path) -> None:
    asked = runner(tmp_path, LAPTOP)
    first = row(tmp_path, served_name="x")
    cooler = row(tmp_path, served_name="x", sampling={"temperature": 0})
    shorter = row(tmp_path, served_name="x", engine={"max_model_len": 512})

    assert asked.engine(first) == asked.engine(cooler)
    assert asked.engine(first) != asked.engine(shorter)


def first_stage(name: str) -> ShardedFirstStage:
    config = parse_config({"name": "x", "tasks": ["Demo-Posts"], "systems": [{"name": "s", "retriever": name}]})
    found = resolve(config).systems[0].first_stages[0]
    assert found.work != "nothing"
    return found


def test_an_embedding_service_leaves_the_gpu_to_the_models_that_need_it(tmp_path: Path) -> None:
    asked = runner(tmp_path, ONE_GPU)

    assert asked.preparing(first_stage("all-MiniLM-L6-v2")).gpus == 1
    assert asked.preparing(first_stage("voyage-3")).gpus == 0
    assert has_room(asked, row(tmp_path), asked.preparing(first_stage("voyage-3")))


@pytest.mark.parametrize(("shards", "cpus"), [(1, 0.25), (3, 0.75), (100, 4.0)])
def test_an_index_reserves_what_the_actors_that_hold_its_shards_do(tmp_path: Path, shards: int, cpus: float) -> None:
    held = tuple(CorpusShard(index=i, path="", start_row=999 * i, num_rows=999, digest="") for i in range(shards))
    corpus = Corpus(key="", digest="", shards=held)
    task = Task(name="x", suite="x", revision="", corpus=corpus, queries=(), qrels={}, folder="")

    # One actor per CPU at most, of 16, and none without a shard; each reserves a quarter of a CPU.
    assert runner(tmp_path, ONE_GPU).searching(task, first_stage("bm25")) == Need(cpus=cpus)
