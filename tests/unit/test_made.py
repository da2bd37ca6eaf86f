"""What was measured when an artefact was made is told by every later job that uses the artefact."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from r2med_ray.models.catalog.devices import processor_name
from r2med_ray.reporting.part_records import PartRecord
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.run_details import stage_columns
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import load_with
from r2med_ray.systems import ResolvedBenchmark, resolve
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.plan import make_plan
from tests.http_services import Service, completions
from tests.unit.corpus_files import write_r2med
from tests.unit.tasks import run_in

DENSE = {"model": "all-MiniLM-L6-v2", "dtype": "bfloat16", "max_length": 16}
SYSTEMS = [
    {"name": "bm25", "retriever": "bm25"},
    {"name": "dense", "retriever": DENSE},
    {"name": "again", "retriever": DENSE},
    {
        "name": "all",
        "retriever": "bm25",
        "rewriter": {"method": "hyde", "llm": "writer"},
        "reranker": {"model": "maxsim-minilm", "depth": 2},
    },
]


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResolvedBenchmark]:
    """Systems over six documents and three queries, one of them with a language model."""
    folder = tmp_path_factory.mktemp("made")
    write_r2med(folder / "tiny")
    with Service(completions(lambda prompt: "a fever")) as service:
        writer = {"name": "writer", "kind": "openai", "model": "w", "base_url": service.url}
        writer |= {"usd_per_million_input_tokens": 0, "usd_per_million_output_tokens": 2}
        (folder / "models.yaml").write_text(yaml.safe_dump({"language_models": [writer]}))
        values = {"name": "made", "tasks": [{"name": "Tiny", "path": "tiny"}], "systems": SYSTEMS}
        (folder / "made.yaml").write_text(yaml.safe_dump(values | {"models": "models.yaml"}))
        yield load_with(resolve, folder / "made.yaml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def first(benchmark: ResolvedBenchmark, folder: Path) -> BenchmarkRecord:
    return run_in(folder, benchmark)


@pytest.fixture(scope="module")
def second(benchmark: ResolvedBenchmark, folder: Path, first: BenchmarkRecord) -> BenchmarkRecord:
    """The same benchmark when all of it is stored."""
    return run_in(folder, benchmark)


def made(record: BenchmarkRecord) -> dict[tuple[str, str], PartRecord | None]:
    return {(stage.stage, stage.unit): stage.made for stage in record.stages}


def test_a_second_run_tells_how_all_that_it_uses_was_made(first: BenchmarkRecord, second: BenchmarkRecord) -> None:
    assert made(second) == made(first)
    # The vectors that two systems share count once. Each query has one text, and at most two candidates.
    [reranked] = [result.run.rankings.values() for result in second.results if result.system == "all"]
    pairs = sum(min(2, len(ranking)) for ranking in reranked)
    assert {name: (part.items, part.unmeasured) for name, part in made(second).items() if part} == {
        ("load", "Tiny"): (6, 0),
        ("tokenize", "bm25"): (6, 0),
        ("encode", "all-MiniLM-L6-v2"): (6, 0),
        ("encode queries", "all-MiniLM-L6-v2"): (3, 0),
        ("rerank", "maxsim-minilm"): (pairs, 0),
        ("write", "writer"): (3, 0),
    }
    assert all(part and part.items_per_second for part in made(second).values())
    assert all(stage.reused for stage in second.stages)
    # What a service counted for texts is known to the second run too, which asks it nothing.
    tokens = [made(each)["write", "writer"].tokens for each in (first, second)]
    assert tokens[0] == tokens[1] > 0
    # The service counts a letter as a token: three answers of 7 letters, at 2 dollars for a million.
    assert [part.usd for part in made(second).values() if part and part.tokens] == [pytest.approx(3 * 7 * 2 / 1e6)]


def test_a_second_run_tells_how_long_searches_scores_and_texts_took(
    first: BenchmarkRecord, second: BenchmarkRecord
) -> None:
    for before, after in zip(first.results, second.results, strict=True):
        stages = {"search"} | ({"rerank", "write"} if before.system == "all" else set())
        assert {name for name, seconds in after.seconds.items() if seconds > 0} == {*stages, "evaluate"}
        assert {name: after.seconds[name] for name in stages} == {name: before.seconds[name] for name in stages}


def test_device_dtype_lengths_threads_and_engine_of_each_system_are_in_manifest_page_and_log(
    benchmark: ResolvedBenchmark, folder: Path, first: BenchmarkRecord, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="r2med_ray.benchmark")
    write_report(summarise(run_in(folder, benchmark)), folder / "results")

    systems = {system.name: system.computed for system in load_results(folder / "results").systems}
    [encoded, asked] = systems["dense"]
    assert (encoded.arrow, encoded.part, encoded.dtypes, encoded.lengths) == (
        *("encode", "all-MiniLM-L6-v2"),
        *(("bfloat16",), (16,)),
    )
    [computer] = encoded.computers
    assert computer.startswith(f"{processor_name()}, ")
    assert computer.endswith("threads") or computer.endswith(" 1 thread")
    assert "torch " in encoded.engines[0]
    assert asked.arrow == "encode queries"
    [_, rewritten, reranked] = systems["all"]
    assert (reranked.arrow, reranked.dtypes, reranked.lengths) == ("rerank", ("float32",), (256,))
    assert (rewritten.arrow, rewritten.engines, rewritten.computers) == ("write", ("a service",), ())

    columns = {column.title: column.values for column in stage_columns(first)}
    assert "bfloat16" in columns["Dtype"]
    page = (folder / "results" / "index.html").read_text()
    assert computer in page
    assert page.count("how it was computed") == len(systems)
    said = f"dense: encode all-MiniLM-L6-v2: bfloat16, at most 16 tokens, on {computer}, sentence-transformers "
    assert any(record.getMessage().startswith(said) for record in caplog.records)


def test_a_plan_says_how_each_model_will_compute_and_for_which_systems(
    benchmark: ResolvedBenchmark, folder: Path
) -> None:
    with open_workbench(folder / "empty", names=benchmark.names, only_to_plan=True) as bench:
        lines = make_plan(benchmark, bench.store, bench.runner).computing
        threads = bench.runner.workers("encode").threads

    assert lines == (
        f"all-MiniLM-L6-v2: bfloat16, at most 16 tokens, on a CPU, {threads} thread(s); for dense, again",
        f"maxsim-minilm: float32, at most 256 tokens, on a CPU, {threads} thread(s); for all",
        "writer: at most 10240 tokens an answer, by a service; for all",
    )
