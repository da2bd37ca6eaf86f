"""What only a worker's machine knows is asked of a worker, and its failures are told in its own words."""

import os
from pathlib import Path

import pytest

from r2med_ray.distributed.on_a_worker import on_a_worker
from r2med_ray.errors import ConfigError, StageError
from r2med_ray.first_stages.measuring_dtypes import KIND
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import ClusterCapacity, Pool
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import Names
from r2med_ray.workbench.fastest import Dtypes, find_fastest
from r2med_ray.workbench.on_cluster import ClusterRunner
from r2med_ray.workbench.worklog import Worklog

pytestmark = pytest.mark.ray

ONE = Pool(actors=1, cpus=1)


def refuse() -> int:
    raise ConfigError("no such dtype")


def end_the_process() -> int:
    os._exit(1)


def test_a_worker_answers_in_a_process_of_its_own(cluster: ClusterCapacity) -> None:
    assert on_a_worker("encode", "measuring", os.getpid, ONE, timeout_s=60) != os.getpid()


def test_a_worker_that_fails_says_so_in_its_own_words(cluster: ClusterCapacity) -> None:
    with pytest.raises(StageError, match=r"^encode failed on measuring: .*no such dtype"):
        on_a_worker("encode", "measuring", refuse, ONE, timeout_s=60)
    with pytest.raises(StageError, match=r"^encode failed on measuring: "):
        on_a_worker("encode", "measuring", end_the_process, ONE, timeout_s=60)


def test_a_cluster_measures_the_dtype_on_a_worker_and_keeps_it(cluster: ClusterCapacity, tmp_path: Path) -> None:
    store, names = ArtifactStore(str(tmp_path)), Names.load()
    runner = ClusterRunner("x", names.catalog, store, ResourcesConfig(), cluster, Worklog())
    row = names.catalog.encoders["all-MiniLM-L6-v2"].model_copy(update={"dtype": "fastest"})
    first_stage = DenseFirstStage(row=row, rules=Rules())
    found = [find_fastest(store, runner, first_stage) for _ in range(2)]

    assert found[0] == found[1]
    assert set(found[0].rates) == {"float32", "bfloat16"}
    [kept] = store.all(KIND)
    assert kept.inputs["threads"] == runner.workers("encode").threads
    known = Dtypes(runner, lambda first_stage: found[0]).known(first_stage)
    assert isinstance(known, DenseFirstStage)
    assert known.row.resolved_dtype("cpu") == found[0].dtype
