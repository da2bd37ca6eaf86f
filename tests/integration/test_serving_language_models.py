"""What the language models of a job may count on, worked out before anything is started."""

from pathlib import Path
from typing import Any

import pytest

from r2med_ray.capacity import ClusterCapacity, Pools, size_pools
from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.llm_rows import LanguageModelRow
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.serving.language_models import LanguageModels
from r2med_ray.settings.resources import ResourcesConfig

LAPTOP = ClusterCapacity(num_nodes=1, cpus=2, gpus=0, cpus_of_largest_node=2)
ONE_GPU = ClusterCapacity(num_nodes=1, cpus=16, gpus=1, cpus_of_largest_node=16)
RESOURCES = ResourcesConfig()


def models(capacity: ClusterCapacity) -> tuple[LanguageModels, Pools]:
    pools = size_pools(RESOURCES, capacity)
    return LanguageModels("test", RESOURCES.language_model, pools, capacity), pools


def row(folder: Path, **values: Any) -> LanguageModelRow:
    (folder / "config.json").write_text("{}")
    return LanguageModelRow.model_validate({"name": "m", "model": str(folder), **values})


def test_there_is_room_for_what_the_engine_and_its_ingress_leave(tmp_path: Path) -> None:
    asked, _ = models(LAPTOP)
    asked.require(row(tmp_path))

    # 2 CPUs less 1 of the engine and a quarter of the ingress.
    assert asked.fit_beside(cpus=0.75, gpus=0)
    assert not asked.fit_beside(cpus=1.0, gpus=0)


def test_an_encoder_waits_for_the_only_gpu(tmp_path: Path) -> None:
    asked, pools = models(ONE_GPU)
    assert asked.fit_beside(pools.encode.cpus, pools.encode.gpus)
    asked.require(row(tmp_path))

    assert not asked.fit_beside(pools.encode.cpus, pools.encode.gpus)


def test_a_model_that_the_cluster_can_never_hold_is_not_at_hand(tmp_path: Path) -> None:
    asked, _ = models(ONE_GPU)
    with pytest.raises(NotAtHand, match=r"reserves 2 × 1 GPU, 2 in all; the cluster has 1") as failure:
        asked.require(row(tmp_path, engine={"tensor_parallel_size": 2}))

    assert failure.value.what == "2 × 1 GPU for m"


def test_a_model_with_an_address_reserves_nothing(tmp_path: Path) -> None:
    asked, _ = models(LAPTOP)
    elsewhere = row(tmp_path, base_url="http://127.0.0.1:1/v1", engine={"tensor_parallel_size": 8})
    asked.require(elsewhere)

    assert isinstance(asked.generator(elsewhere), ChatModel)
    assert asked.fit_beside(cpus=1.5, gpus=0)


def test_two_rows_of_one_model_share_an_engine_unless_they_start_it_otherwise(tmp_path: Path) -> None:
    asked, _ = models(LAPTOP)
    asked.require(row(tmp_path, served_name="x"))
    asked.require(row(tmp_path, served_name="x", sampling={"temperature": 0}))
    assert asked.fit_beside(cpus=0.75, gpus=0)

    asked.require(row(tmp_path, served_name="x", engine={"max_model_len": 512}))
    assert not asked.fit_beside(cpus=0.75, gpus=0)
