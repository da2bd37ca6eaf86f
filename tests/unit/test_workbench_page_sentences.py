"""Which sentences put passages on a page: a reranker tells it, or a retriever's model once and the store then."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from r2med_ray.benchmark import run_benchmark
from r2med_ray.errors import StageError
from r2med_ray.first_stages.checkpoints import Asked, LateInteractionFirstStage
from r2med_ray.reporting.texts import TaskTexts
from r2med_ray.sentences import Shares, Told
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import ResolvedBenchmark, resolve
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.local_runner import LocalRunner
from tests.unit.corpus_files import write_r2med


@pytest.fixture
def benchmark(tmp_path: Path) -> ResolvedBenchmark:
    source = write_r2med(
        tmp_path / "a",
        corpus=[
            ("d1", "Rain fell on the hills. Rubella harms the heart of the child."),
            ("d2", "Asthma narrows airways."),
        ],
        queries=[("q1", "rubella infection and the heart")],
        qrels=[("q1", "d1", 1)],
    )
    systems = [
        {"name": "tokens", "retriever": "minilm-tokens"},
        {"name": "maxsim", "retriever": "bm25", "reranker": {"model": "maxsim-minilm", "depth": 2}},
        {"name": "bm25", "retriever": "bm25"},
    ]
    tasks = [{"path": str(source.folder), "layout": "r2med", "name": "Tiny"}]
    return resolve(parse_config({"name": "x", "tasks": tasks, "systems": systems, "measures": ["nDCG@10"]}))


def texts_of(benchmark: ResolvedBenchmark, store: Path) -> TaskTexts:
    with open_workbench(store, names=benchmark.names) as bench:
        [task] = run_benchmark(benchmark, bench).tasks
    assert task.texts is not None
    return task.texts


def test_the_sentence_that_a_query_is_about_has_the_largest_share(
    benchmark: ResolvedBenchmark, tmp_path: Path
) -> None:
    told = texts_of(benchmark, tmp_path / "store").sentences

    assert {name: each.model for name, each in told.items()} == {"tokens": "minilm-tokens", "maxsim": "maxsim-minilm"}
    rain, rubella = told["tokens"].shares["q1"]["d1"]
    assert rubella > 0.5 > rain
    # Both compare the same vectors of one text, as float16 and as float32.
    assert told["maxsim"].shares["q1"]["d1"] == pytest.approx((rain, rubella), abs=0.02)
    assert told["tokens"].shares["q1"].keys() == {"d1", "d2"}
    assert told["maxsim"].shares["q1"].keys() == {"d1"}  # BM25 finds no other


def cannot(self: LocalRunner, first_stage: LateInteractionFirstStage, asked: Sequence[Asked]) -> list[list[Shares]]:
    raise StageError("explain", first_stage.label, "no model")


def test_what_was_told_once_is_read_from_the_store(
    benchmark: ResolvedBenchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = texts_of(benchmark, tmp_path / "store")
    monkeypatch.setattr(LocalRunner, "sentence_shares", cannot)

    assert texts_of(benchmark, tmp_path / "store").sentences == before.sentences


def test_a_model_that_can_not_tell_is_named_and_the_report_is_made_all_the_same(
    benchmark: ResolvedBenchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(LocalRunner, "sentence_shares", cannot)

    told = texts_of(benchmark, tmp_path / "store").sentences["tokens"]

    assert told == Told("minilm-tokens", {}, "explain failed on minilm-tokens: no model")
    assert "the sentences that minilm-tokens finds are not shown" in caplog.text
