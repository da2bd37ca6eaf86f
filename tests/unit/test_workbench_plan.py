"""A plan only reads. It fetches, converts and starts nothing, and shows what is missing."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.chat import LanguageModel
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task, read_task_queries
from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.first_stages.preparation import Corpora, QuerySet
from r2med_ray.protocols import Scorer
from r2med_ray.settings.config_files import parse_config
from r2med_ray.settings.pools import ClusterCapacity, Node
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import resolve
from r2med_ray.types import Task
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.on_cluster import ClusterRunner
from r2med_ray.workbench.plan import make_plan
from r2med_ray.workbench.worklog import Worklog

LAPTOP = ClusterCapacity(nodes=(Node(cpus=2),))


def plan(store: ArtifactStore, *tasks: str, **changes: Any) -> str:
    values = {
        "name": "x",
        "tasks": tasks,
        "systems": [{"name": "b", "retriever": "bm25"}, {"name": "m", "retriever": "all-MiniLM-L6-v2"}],
        "resources": {"documents_per_shard": 40},
        **changes,
    }
    benchmark = resolve(parse_config(values))
    runner = OnlyCounts("x", benchmark.names.catalog, store, benchmark.config.resources, LAPTOP, Worklog())
    return make_plan(benchmark, store, runner).text()


class OnlyCounts(ClusterRunner):
    """A cluster that fails on any use."""

    def prepare(self, corpora: Corpora, sets: Sequence[QuerySet]) -> None:
        raise AssertionError("a plan encodes nothing")

    def open_index(self, task: Task, first_stage: ShardedFirstStage) -> Any:
        raise AssertionError("a plan searches nothing")

    def start_scorer(self, scorer: Scorer, requests: int) -> Any:
        raise AssertionError("a plan scores nothing")

    def start_model(self, model: LanguageModel) -> Any:
        raise AssertionError("a plan asks no model anything")


def test_a_task_of_the_hub_that_is_not_here_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    monkeypatch.delenv("R2MED_DATA", raising=False)
    text = plan(ArtifactStore(str(tmp_path / "store")), "Biology")

    assert "Biology  not here yet: R2MED/Biology at 8b9fec2db9ed, from the Hub or in $R2MED_DATA/Biology" in text


def test_a_corpus_that_is_not_converted_has_no_shards_to_count_yet(tmp_path: Path) -> None:
    text = plan(ArtifactStore(str(tmp_path / "store")), "Demo-Posts")

    assert "Demo-Posts  corpus to be converted" in text
    assert not list(tmp_path.iterdir())


def test_shards_are_counted_by_what_is_stored_and_what_is_missing(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    [source] = resolve_tasks(["Demo-Posts"])
    load_task(source, store, documents_per_shard=40)
    text = plan(store, "Demo-Posts")

    assert "80 documents in 2 shards, converted" in text
    assert "terms for bm25, Demo-Posts: 0 + 2" in text
    assert "vectors for all-MiniLM-L6-v2, Demo-Posts: 0 + 2" in text
    assert "encode    1 × 1.5 CPU" in text


def test_indexes_whose_shards_are_not_held_are_listed(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    nothing_held = {"documents_per_shard": 40, "search": {"held_shards": "none"}}

    section = "indexes whose shards are read from the store for every search"
    assert section not in plan(store, "Demo-Cases")
    lines = plan(store, "Demo-Cases", resources=nothing_held).splitlines()
    start = lines.index(section)
    assert lines[start + 1 : start + 3] == [
        "  bm25 on Demo-Cases: size not known yet",
        "  all-MiniLM-L6-v2 on Demo-Cases: size not known yet",
    ]


def test_each_way_to_search_the_same_vectors_is_held_or_not_by_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "r2med_ray.workbench.on_cluster.are_held", lambda how, held_bytes, memory_gb: held_bytes < 5000
    )
    store = ArtifactStore(str(tmp_path))
    whole, code = {"model": "all-MiniLM-L6-v2"}, {"model": "all-MiniLM-L6-v2", "output_dtype": "binary"}
    with open_workbench(tmp_path) as bench:
        [source] = resolve_tasks(["Demo-Cases"])
        bench.find(load_task(source, store, documents_per_shard=40), "all-MiniLM-L6-v2", k=1)

    for order in ((whole, code), (code, whole)):
        systems = [{"name": f"s{number}", "retriever": retriever} for number, retriever in enumerate(order)]
        text = plan(store, "Demo-Cases", systems=systems, resources={"documents_per_shard": 40})
        # Demo-Cases has 80 documents of 384 components: 4 × 384 × 80 = 122,880 bytes whole, and 3,840 as bits.
        assert "  all-MiniLM-L6-v2 on Demo-Cases: 0.0 GB" in text
        assert "[binary,rescore=4] on Demo-Cases" not in text


def test_hours_are_estimated_by_arithmetic_and_by_what_the_store_has_measured(tmp_path: Path) -> None:
    retriever = "all-MiniLM-L6-v2"
    reranked = {"name": "r", "retriever": "bm25", "reranker": {"model": "bge-reranker-v2-m3", "depth": 10}}
    listed = {"name": "l", "retriever": "bm25", "reranker": {"model": "listwise-qwen-7b", "depth": 30}}
    written = {"name": "w", "retriever": "bm25", "rewriter": {"method": "hyde", "llm": "qwen3-8b", "samples": 2}}
    systems = [{"name": "m", "retriever": retriever}, reranked, listed, written]
    store = ArtifactStore(str(tmp_path))

    text = plan(store, "Demo-Posts", systems=systems)

    assert re.search(rf"encode {retriever}: 80 documents × 231 tokens \(assumed\): .* \(arithmetic: ", text)
    # 15 queries with 10 candidates each; a document of 231 tokens and a query of 300 are more than the 512 that fit.
    assert "rerank bge-reranker-v2-m3: 150 pairs × 512 tokens (assumed): " in text
    # 15 queries with windows of 20 that begin at 10 and 0; a query of 300 tokens and 20 candidates of 231.
    assert "rerank listwise-qwen-7b: at most 30 prompts × 4,920 tokens (assumed) to read" in text
    assert "write qwen3-8b: 30 texts: not estimated, because their lengths aren't known; at most " in text
    with open_workbench(store.uri, resources=ResourcesConfig(documents_per_shard=40)) as bench:
        bench.rank(bench.task("Demo-Posts"), {"retriever": retriever})
    text = plan(store, "Demo-Posts", "Demo-Cases", systems=systems)
    assert re.search(rf"encode {retriever}: 80 documents × \d+ tokens \(as in stored shards\): .* \(measured: ", text)


def test_documents_of_a_second_search_are_counted_with_those_of_its_encoder(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text("listwise_encoders: [{name: again, encoder: all-MiniLM-L6-v2}]")
    again = {"name": "a", "retriever": "bm25", "reranker": {"model": "again", "depth": 10}}
    systems = [again, {"name": "m", "retriever": "all-MiniLM-L6-v2"}]

    text = plan(ArtifactStore(str(tmp_path)), "Demo-Posts", systems=systems, models=str(tmp_path / "models.yaml"))

    assert text.count("  encode all-MiniLM-L6-v2: 80 documents") == 1
    # 15 queries with one prompt each, of a query of 300 tokens and 10 candidates of 231.
    assert "  rerank again: 15 prompts × 2610 tokens (assumed): " in text
    assert "encode again" not in text


def test_what_is_not_on_this_machine_is_listed_with_what_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    systems = [
        {"name": "b", "retriever": "bm25"},
        {"name": "bge", "retriever": "bge-large-en-v1.5"},
        {"name": "h", "retriever": "bm25", "rewriter": {"method": "hyde", "generations": "gpt4"}},
    ]
    text = plan(ArtifactStore(str(tmp_path / "store")), "Demo-Posts", systems=systems)

    assert "needs model bge-large-en-v1.5: BAAI/bge-large-en-v1.5 at d4aa6901d3a4: bge on Demo-Posts" in text
    assert "needs texts that were never published, hyde/gpt4/query_with_hydoc.jsonl: h on Demo-Posts" in text
    without = plan(ArtifactStore(str(tmp_path / "store")), "Demo-Posts")
    assert "needs" not in without
    assert "keys" not in without


def test_published_texts_are_told_from_a_name_that_nobody_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("R2MED_DATA", str(tmp_path))
    (tmp_path / "Biology").mkdir()
    for file in ("corpus", "query", "qrels"):
        (tmp_path / "Biology" / f"{file}.jsonl").touch()
    systems = [
        {"name": writer, "retriever": "bm25", "rewriter": {"method": "hyde", "generations": writer}}
        for writer in ("gpt4", "gpt5")
    ]
    text = plan(ArtifactStore(str(tmp_path / "store")), "Biology", "Medical-Sciences", systems=systems)

    assert "needs published texts hyde/gpt4/query_with_hydoc.jsonl: gpt4 on Biology\n" in text
    assert "needs data R2MED/Medical-Sciences at" in text
    nobody = "needs texts that were never published, hyde/gpt5/query_with_hydoc.jsonl (Did you mean 'gpt4'?)"
    assert f"{nobody}: gpt5 on Biology, Medical-Sciences" in text


def test_keys_of_services_are_named_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    monkeypatch.delenv("VOYAGE_API_KEY", raising=False)
    systems = [
        {"name": "h", "retriever": "text-embedding-3-large", "rewriter": {"method": "hyde", "llm": "gpt4"}},
        {"name": "v", "retriever": "voyage-3"},
    ]
    text = plan(ArtifactStore(str(tmp_path / "store")), "Demo-Posts", systems=systems)

    assert "\n  OPENAI_API_KEY: set; for text-embedding-3-large, gpt4\n" in text
    assert "\n  VOYAGE_API_KEY: not set; for voyage-3\n" in text
    assert "sk-secret" not in text
    assert "needs OPENAI_API_KEY" not in text
    assert "needs model voyage-3" not in text


def test_texts_yet_to_be_written_are_counted_and_what_their_model_reserves_is_shown(tmp_path: Path) -> None:
    rows = tmp_path / "models.yaml"
    (tmp_path / "config.json").write_text("{}")
    rows.write_text(
        """
        language_models: [{name: small, model: ./, max_replicas: 2, engine: {tensor_parallel_size: 2}}]
        llm_rerankers: [{name: order, strategy: listwise, language_model: small}]
        """
    )
    hyde = {"method": "hyde", "llm": "small", "samples": 3}
    lamer = {"method": "lamer", "llm": "small", "candidates": {"retriever": "bm25"}}
    systems = [
        {"name": "h", "retriever": "bm25", "rewriter": hyde},
        {"name": "l", "retriever": "bm25", "rewriter": lamer},
        {"name": "t", "retriever": "bm25", "rewriter": lamer | {"method": "thinkqe"}},
        {"name": "c", "retriever": "bm25", "rewriter": hyde | {"method": "contrast"}},
        {"name": "o", "retriever": "bm25", "reranker": {"model": "order"}},
    ]
    store = ArtifactStore(str(tmp_path / "store"))
    text = plan(store, "Demo-Posts", systems=systems, models=str(rows))
    [source] = resolve_tasks(["Demo-Posts"])
    count = len(read_task_queries(source))

    # Each query has three texts. LameR's prompts depend on a search that a plan doesn't make.
    assert f"h, Demo-Posts: {3 * count} of {3 * count}" in text
    assert f"l, Demo-Posts: up to {count}; they depend on what bm25 finds" in text
    # three rounds of one text, and a target and a mimic with three texts each
    assert f"t, Demo-Posts: up to {3 * count}; they depend on what bm25 finds" in text
    assert f"c, Demo-Posts: up to {6 * count}; the later ones depend on the first" in text
    assert "language model small: 1-2 replicas, each 2 × 1 CPU" in text
    assert not store.names()


def test_a_plan_of_passages_that_an_encoder_would_find_encodes_nothing(tmp_path: Path) -> None:
    rows = tmp_path / "models.yaml"
    (tmp_path / "config.json").write_text("{}")
    rows.write_text("language_models: [{name: small, model: ./}]")
    candidates = {"retriever": "all-MiniLM-L6-v2", "depth": 2}
    systems = [
        {"name": "l", "retriever": "bm25", "rewriter": {"method": "lamer", "llm": "small", "candidates": candidates}}
    ]
    store = ArtifactStore(str(tmp_path / "store"))
    [source] = resolve_tasks(["Demo-Posts"])
    task = load_task(source, store, documents_per_shard=40)
    before = store.names()
    text = plan(store, "Demo-Posts", systems=systems, models=str(rows))

    assert f"l, Demo-Posts: up to {len(task.queries)}; they depend on what all-MiniLM-L6-v2 finds" in text
    assert "vectors for all-MiniLM-L6-v2, Demo-Posts: 0 + 2" in text
    assert store.names() == before
