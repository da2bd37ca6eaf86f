"""`dtype: fastest` is measured once per store and machine; all that is made and told afterwards follows it."""

from pathlib import Path

import pytest

from r2med_ray.first_stages.measuring_dtypes import KIND
from r2med_ray.first_stages.second_search import SecondSearch
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.models.catalog.fastest import FastestDtype
from r2med_ray.settings.config_files import parse_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import resolve
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.computing import computing_lines
from r2med_ray.workbench.fastest import Dtypes

WANTED = {"model": "all-MiniLM-L6-v2", "dtype": "fastest"}


def found_by(first_stage: object) -> FastestDtype:
    assert isinstance(first_stage, DenseFirstStage)
    assert first_stage.row.found_dtype is not None
    return first_stage.row.found_dtype


def test_a_model_is_measured_once_and_its_vectors_are_of_that_dtype(tmp_path: Path):
    with open_workbench(tmp_path) as bench:
        found = found_by(bench.first_stage(WANTED))
        task = bench.task("mine", documents={"d1": "fever", "d2": "cough"}, queries={"q1": "fever"})
        bench.find(task, WANTED)
    with open_workbench(tmp_path) as again:
        # Rates that were measured a second time would differ in some digit.
        assert found_by(again.first_stage(WANTED)) == found
    store = ArtifactStore(str(tmp_path))
    assert len(store.names_of(KIND)) == 1
    assert [vectors.inputs["encoding"]["dtype"] for vectors in store.all("vectors")] == [found.dtype]
    assert set(found.rates) == {"float32", "bfloat16"}


def test_a_plan_measures_nothing(tmp_path: Path):
    with open_workbench(tmp_path, only_to_plan=True) as bench:
        assert found_by(bench.first_stage(WANTED)) == FastestDtype(dtype="float32")
    assert ArtifactStore(str(tmp_path)).names() == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_plan_and_report_say_what_was_chosen_and_why(tmp_path: Path, dtype: str):
    found = FastestDtype(dtype=dtype, rates={"float32": 10.0, "bfloat16": 20.0}, computer="a CPU")  # type: ignore[arg-type]
    with open_workbench(tmp_path) as bench:
        asked: list[object] = []
        dtypes = Dtypes(bench.runner, lambda first_stage: (asked.append(first_stage), found)[1])
        systems = [{"name": name, "retriever": WANTED} for name in ("one", "two")]
        resolved = resolve(parse_config({"name": "x", "tasks": ["Demo-Posts"], "systems": systems}))
        benchmark = dtypes.of_benchmark(resolved)
        [line] = computing_lines(benchmark, bench.runner)
        [first_stage] = benchmark.systems[0].first_stages

    assert len(asked) == 1  # two systems have one model
    assert line.startswith(f"all-MiniLM-L6-v2: {dtype} (by `fastest`: 10 in float32 and 20 in bfloat16")
    assert first_stage.settings()["fastest"] == f"{dtype}: {found.describe()}"


def test_a_second_search_has_the_dtype_of_the_retriever_whose_vectors_it_uses(tmp_path: Path):
    found = FastestDtype(dtype="bfloat16", rates={"float32": 10.0, "bfloat16": 20.0}, computer="a CPU")
    systems = [{"name": "again", "retriever": "bm25", "reranker": {"model": "e2rank-0.6b-listwise"}}]
    values = {"name": "x", "tasks": ["Demo-Posts"], "resources": {"encode": {"dtype": "fastest"}}, "systems": systems}
    with open_workbench(tmp_path) as bench:
        asked: list[object] = []
        dtypes = Dtypes(bench.runner, lambda first_stage: (asked.append(first_stage), found)[1])
        [system] = dtypes.of_benchmark(resolve(parse_config(values))).systems
    second = system.rerankers[0].second_search

    assert isinstance(second, SecondSearch)
    assert (second.row.resolved_dtype("cpu"), second.documents.resolved_dtype("cpu")) == ("bfloat16", "bfloat16")
    assert [type(first_stage) for first_stage in asked] == [DenseFirstStage]
