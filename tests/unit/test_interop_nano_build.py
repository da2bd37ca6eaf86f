"""A collection becomes a Nano set, and the set becomes a task with its three profiles, without Ray."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task, read_shard
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.nano_profile import MEASURES, NanoProfile
from r2med_ray.evaluation.trec import write_run
from r2med_ray.interop.nano.build import METADATA_FILE, build_nano, split_name
from r2med_ray.retrieval.fusion import fuse
from r2med_ray.retrieval.nano_hybrid import hybrid_list
from r2med_ray.retrieval.ranked_lists import ListRetriever, in_order, read_lists
from r2med_ray.settings.config import FusionConfig, TaskConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Run, Task
from tests.unit.corpus_files import write_r2med

DOC_IDS = [f"d{number:03d}" for number in range(600)]
QUERIES = {"q1": "mark", "q2": "needle", "q3": "nothing shared"}
QRELS = [("q1", "d590", 1), ("q2", "d300", 1), ("q2", "d301", 1), ("q3", "d250", 1)]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> TaskSource:
    """600 documents. Every fifth has the term of q1, and only d300 has the term of q2."""
    texts = {doc_id: f"word{number} common" for number, doc_id in enumerate(DOC_IDS)}
    texts |= {doc_id: f"mark {texts[doc_id]}" for doc_id in DOC_IDS[::5]} | {"d300": "needle in a haystack"}
    return write_r2med(tmp_path_factory.mktemp("source"), corpus=texts.items(), queries=QUERIES.items(), qrels=QRELS)


@pytest.fixture(scope="module")
def built(source: TaskSource, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of all documents. Its dense run ranks them by their ids, after a document that the corpus lacks."""
    folder = tmp_path_factory.mktemp("built")
    ranking = in_order(["elsewhere", *DOC_IDS])
    write_run(folder / "Tiny.trec", Run(tag="dense", rankings=dict.fromkeys(QUERIES, ranking)))
    build_nano([source], folder / "set", num_queries=200, num_documents=10_000, dense=f"{folder}/{{task}}.trec")
    return folder / "set"


@pytest.fixture(scope="module")
def task(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Task:
    config = TaskConfig(path=str(built), layout="nano", name="NanoTiny", split="NanoTiny")
    [nano] = resolve_tasks([config])
    return load_task(nano, ArtifactStore(str(tmp_path_factory.mktemp("store"))), documents_per_shard=250)


def profile(task: Task, run: Run) -> NanoProfile:
    return NanoProfile.of(evaluate(run, task.qrels, [Measure.parse(name) for name in MEASURES]))


def listed(task: Task, name: str) -> Run:
    return ListRetriever(name, read_lists(Path(task.ranked_lists[name]))).retrieve(task.queries, k=500)


def test_the_set_is_a_task_with_its_lists(task: Task) -> None:
    assert set(task.ranked_lists) == {"bm25", "dense", "reranking_hybrid"}
    assert task.counts["documents"] == 600
    assert task.qrels == {"q1": {"d590": 1}, "q2": {"d300": 1, "d301": 1}, "q3": {"d250": 1}}


def test_the_bm25_list_is_what_the_variant_ranks(built: Path) -> None:
    ranked = read_lists(built / "bm25" / "NanoTiny.parquet")

    assert {len(of_query) for of_query in ranked.values()} == {500}
    # 120 documents have q1's term. They have equal length, so they are ordered by id, descending: d590 is second,
    # after d595.
    assert ranked["q1"][:3] == ("d595", "d590", "d585")
    assert ranked["q2"][0] == "d300"


def test_profiles_by_hand(task: Task) -> None:
    # BM25 finds d590 at rank 2 and d300 at rank 1. Documents without a shared term follow by id, descending, so d301
    # and d250 come about 300 and 350 documents later. The dense list ranks by id, so all four are below rank 100.
    bm25, dense = profile(task, listed(task, "bm25")), profile(task, listed(task, "dense"))

    assert (bm25.hit_at_10, bm25.found_at_100) == (pytest.approx(2 / 3), 2)
    assert bm25.micro_recall_at_100 == 0.5
    assert (dense.hit_at_10, dense.found_at_100) == (0.0, 0)


def test_the_hybrid_is_rebuilt_from_the_two_lists_and_only_by_their_constant(task: Task) -> None:
    lists = {name: read_lists(Path(path)) for name, path in task.ranked_lists.items()}
    hybrid = lists.pop("reranking_hybrid")
    rebuilt = {
        k: {query: tuple(hybrid_list([of[query] for of in lists.values()], k=k)) for query in hybrid}
        for k in (100, 60)
    }

    assert {query: ranked[:100] for query, ranked in hybrid.items()} == rebuilt[100]
    assert rebuilt[60] != rebuilt[100]


def test_the_hybrid_of_a_benchmark_file_is_the_list_without_its_safeguard(task: Task) -> None:
    runs = [listed(task, "bm25"), listed(task, "dense")]
    fused = fuse(runs, FusionConfig(method="nano", k=100, depth=500), tag="hybrid", k=500)
    published = ListRetriever("l", read_lists(Path(task.ranked_lists["reranking_hybrid"])), keep=100)

    assert fused.rankings == published.retrieve(task.queries, k=500).rankings


def test_what_was_built_is_told(task: Task, built: Path) -> None:
    told = json.loads((built / METADATA_FILE).read_text())
    hybrid = read_lists(Path(task.ranked_lists["reranking_hybrid"]))
    longer = {query: ranked[100] for query, ranked in hybrid.items() if len(ranked) == 101}

    assert told["configs"]["reranking_hybrid"]["rrf_k"] == 100
    assert told["splits"]["NanoTiny"]["safeguard_positives"] == longer
    assert told["splits"]["NanoTiny"]["harrier_oss_v1_270m"] == {
        "candidate_count_min": 500,
        "candidate_count_max": 500,
    }
    assert longer == {"q3": "d250"}
    assert task.counts["safeguards"] == 1


def test_documents_keep_their_text(task: Task, built: Path) -> None:
    store = ArtifactStore(str(built.parent / "again"))
    [nano] = resolve_tasks([TaskConfig(path=str(built), layout="nano", name="NanoTiny", split="NanoTiny")])
    again = load_task(nano, store, documents_per_shard=1000)

    first = read_shard(store, again.corpus.shards[0]).documents
    assert [document.doc_id for document in first[:4]] == ["d590", "d300", "d301", "d250"]
    assert first[1].text == "needle in a haystack"


def test_a_set_is_there_whole_or_not_at_all(source: TaskSource, tmp_path: Path) -> None:
    write_run(tmp_path / "short.trec", Run(tag="t", rankings={"q1": in_order(["d000"])}))
    options = {"num_queries": 5, "num_documents": 50}

    with pytest.raises(DataError, match="ranks no document of the pool for query 'q2'"):
        build_nano([source], tmp_path / "set", **options, dense=str(tmp_path / "short.trec"))
    assert [path.name for path in tmp_path.iterdir()] == ["short.trec"]

    (tmp_path / "set").mkdir()
    with pytest.raises(ConfigError, match="it exists already"):
        build_nano([source], tmp_path / "set", **options)


@pytest.mark.parametrize(
    ("documents", "depth", "warning"),
    [
        # Each list over a pool of 600 must have 500 documents. 4 positives and the first 46 documents make a pool of
        # 50, all of which must be ranked.
        (600, 500, ""),
        (600, 499, "1 of 3 queries have fewer than 500 documents of the pool, one has 499. Give a run that"),
        (50, 30, "1 of 3 queries have fewer than 50 documents of the pool, one has 30. Give a run that"),
        (50, 46, "1 of 3 queries have fewer than 50 documents of the pool, one has 46. Give a run that"),
    ],
)
def test_a_dense_run_that_is_too_shallow_is_told(
    source: TaskSource,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    documents: int,
    depth: int,
    warning: str,
) -> None:
    rankings = dict.fromkeys(QUERIES, in_order(DOC_IDS)) | {"q2": in_order(DOC_IDS[:depth])}
    write_run(tmp_path / "dense.trec", Run(tag="d", rankings=rankings))

    build_nano([source], tmp_path / "set", num_queries=9, num_documents=documents, dense=str(tmp_path / "dense.trec"))

    assert [warning in record.message for record in caplog.records] == [True] * bool(warning)


def test_the_command_builds_a_set_of_several_tasks(tmp_path: Path) -> None:
    said = CliRunner().invoke(
        app, ["nano", "build", "Demo/*", "--output", str(tmp_path / "set"), "--documents", "50", "--queries", "3"]
    )

    assert said.exit_code == 0, said.output
    assert "NanoDemoPosts: 3 queries, 50 documents" in said.output
    assert sorted(path.stem for path in (tmp_path / "set" / "corpus").iterdir()) == [
        "NanoDemoCases",
        "NanoDemoEvidence",
        "NanoDemoPosts",
    ]


def test_splits_are_named_as_published() -> None:
    def named(suite: str, name: str) -> str:
        return split_name(TaskSource(name=name, suite=suite, folder=Path(), layout="r2med"))

    assert named("R2MED", "Medical-Sciences") == "NanoR2MEDMedicalSciences"
    assert named("MED", "MED") == "NanoMED"
