"""Compressed vectors through the whole flow in this process: one set of stored vectors, and a measured loss."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.first_stages.stored_vectors import document_vectors, query_vector
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.pipeline import rank
from r2med_ray.settings.retriever import RetrieverConfig
from r2med_ray.types import Task
from r2med_ray.workbench.bench import Workbench, open_workbench
from r2med_ray.workbench.parts import Ended
from r2med_ray.workbench.showing.model_facts import sized
from tests.unit.tasks import texts_of_words

MINILM = "all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with open_workbench(tmp_path_factory.mktemp("bench") / "store") as opened:
        yield opened


@pytest.fixture(scope="module")
def task(bench: Workbench) -> Task:
    texts = texts_of_words(46, seed=5)
    return bench.task(
        "mine",
        documents={f"d{number}": text for number, text in enumerate(texts[:40])},
        queries={f"q{number}": text for number, text in enumerate(texts[40:])},
        qrels={f"q{number}": {f"d{number}": 1, f"d{number + 10}": 2} for number in range(6)},
    )


def test_the_loss_of_compressed_vectors_is_measured_against_whole_ones(bench: Workbench, task: Task) -> None:
    exact = bench.rank(task, {"retriever": MINILM}, depth=10)
    retriever = {"model": MINILM, "embed_dim": 16, "output_dtype": "binary", "rescore_multiplier": 1}
    near = bench.rank(task, {"retriever": retriever}, depth=10)
    [missed] = near.approximations
    shared = sum(
        len({hit.doc_id for hit in ranking} & {hit.doc_id for hit in near.run.rankings[query_id]})
        for query_id, ranking in exact.run.rankings.items()
    )
    ndcg = [evaluate(ranked.run, task.qrels, [Measure("nDCG", 10)]).means["nDCG@10"] for ranked in (near, exact)]

    assert missed.search == f"{MINILM}[embed_dim=16,binary,rescore=1]"
    # 6 queries have 10 documents each.
    assert missed.recall == shared / 60 < 1
    assert missed.ndcg_change == ndcg[0] - ndcg[1] != 0
    assert f"nDCG@10 changes by {100 * missed.ndcg_change:+.2f}" in str(missed)
    assert exact.approximations == ()


@pytest.mark.parametrize(
    ("settings", "words", "num_bytes"),
    [
        ({"output_dtype": "float16"}, "float16,rescore=0", 768),
        ({"output_dtype": "float8_e5m2"}, "float8_e5m2,rescore=0", 384),
        ({"output_dtype": "int4"}, "int4,rescore=0", 192),
        ({"output_dtype": "int4", "clipping_margin": [0.2, 0.8]}, "int4,rescore=0,clipping_margin=0.2-0.8", 192),
    ],
)
def test_every_level_has_its_own_measured_loss(
    bench: Workbench, task: Task, settings: dict[str, object], words: str, num_bytes: int
) -> None:
    retriever = {"model": MINILM, "rescore_multiplier": 0, **settings}
    system = bench.system({"retriever": retriever}, depth=10)
    [ended] = [ended for _, ended in bench.run({"part": rank(task, system)})]
    assert isinstance(ended, Ended)
    exact = bench.find(task, MINILM, k=10)
    shared = sum(
        len({hit.doc_id for hit in ranking} & {hit.doc_id for hit in ended.result.run.rankings[query_id]})
        for query_id, ranking in exact.rankings.items()
    )

    [missed] = sized(bench.store, bench.runner.device, task, system, ended.result)

    assert missed.search == f"{MINILM}[{words}]"
    # 6 queries have 10 documents each, and a component has 16, 8 or 4 bits.
    assert missed.recall == pytest.approx(shared / 60)
    assert missed.bytes_per_document == num_bytes


def test_clipping_changes_what_integers_find(bench: Workbench, task: Task) -> None:
    plain = {"model": MINILM, "output_dtype": "int4", "rescore_multiplier": 0}
    scores = [
        dict(bench.find(task, retriever, k=40).rankings["q1"])
        for retriever in (plain, {**plain, "clipping_margin": [0.2, 0.8]})
    ]

    assert scores[0].keys() == scores[1].keys()
    assert scores[0] != scores[1]


def test_a_report_is_told_the_bytes_of_a_document(bench: Workbench, task: Task) -> None:
    system = bench.system({"retriever": {"model": MINILM, "embed_dim": 100, "output_dtype": "binary"}}, depth=10)
    [ended] = [ended for _, ended in bench.run({"part": rank(task, system)})]
    assert isinstance(ended, Ended)

    [missed] = sized(bench.store, bench.runner.device, task, system, ended.result)

    # 100 bits are 12.5 bytes, and 384 float32 are 1536.
    assert (missed.bytes_per_document, missed.exact_bytes) == (13, 1536)
    assert str(missed).endswith("; 13 bytes per document in place of 1536")


def test_every_form_is_searched_with_one_set_of_stored_vectors(bench: Workbench, task: Task) -> None:
    bench.find(task, MINILM, k=5)
    kept = set(bench.store.names_of("vectors")), set(bench.store.names_of("query-vectors"))

    for retriever in (
        {"embed_dim": 64},
        {"output_dtype": "int8"},
        {"embed_dim": 64, "output_dtype": "int8", "rescore_multiplier": 2},
        {"embed_dim": 64, "index": "HNSW8"},
    ):
        bench.find(task, {"model": MINILM, **retriever}, k=5)

    assert (set(bench.store.names_of("vectors")), set(bench.store.names_of("query-vectors"))) == kept


def test_cut_vectors_are_compared_by_cosine(bench: Workbench, task: Task) -> None:
    run = bench.find(task, {"model": MINILM, "embed_dim": 8}, k=40)
    first_stage = bench.first_stage({"model": MINILM, "embed_dim": 8})
    assert isinstance(first_stage, DenseFirstStage)
    whole = bench.first_stage(MINILM)
    assert isinstance(whole, DenseFirstStage)
    vectors = document_vectors(bench.store, whole, task, {"d3"}, bench.runner.device)
    query_D = query_vector(bench.store, whole, task, task.queries, "q1", bench.runner.device)

    cut, query_cut = vectors["d3"][:8].astype(np.float64), query_D[:8].astype(np.float64)
    cosine = cut @ query_cut / (np.linalg.norm(cut) * np.linalg.norm(query_cut))

    assert dict(run.rankings["q1"])["d3"] == pytest.approx(cosine, abs=1e-6)


def test_all_documents_as_candidates_give_the_run_of_exact_search(bench: Workbench, task: Task) -> None:
    exact = bench.find(task, MINILM, k=10)

    for output_dtype in ("float16", "float8_e4m3fn", "int8", "int4", "binary"):
        # 4 candidates per document of a ranking are all 40 documents.
        near = bench.find(task, {"model": MINILM, "output_dtype": output_dtype}, k=10)
        assert near.rankings == exact.rankings
        assert near.approximation is not None
        assert near.approximation.is_close


@pytest.mark.parametrize("output_dtype", ["int8", "int4", "binary"])
def test_token_vectors_are_compressed_too_and_what_they_find_is_scored_exactly(
    bench: Workbench, task: Task, output_dtype: str
) -> None:
    exact = bench.find(task, "minilm-tokens", k=10)
    all_scored = bench.find(task, {"model": "minilm-tokens", "output_dtype": output_dtype}, k=10)
    retriever = {"model": "minilm-tokens", "output_dtype": output_dtype, "rescore_multiplier": 0}
    near = bench.find(task, retriever, k=10)
    shared = sum(
        len({hit.doc_id for hit in ranking} & {hit.doc_id for hit in near.rankings[query_id]})
        for query_id, ranking in exact.rankings.items()
    )

    # 4 candidates per document of a ranking are all 40 documents.
    assert all_scored.rankings == exact.rankings
    assert near.rankings != exact.rankings
    assert near.approximation is not None
    assert near.approximation.search == f"minilm-tokens[{output_dtype},rescore=0]"
    # 6 queries have 10 documents each.
    assert near.approximation.recall == pytest.approx(shared / 60)


def test_one_set_of_token_vectors_serves_all_codes(bench: Workbench, task: Task) -> None:
    bench.find(task, "minilm-tokens", k=10)
    before = set(bench.store.names_of("token-vectors"))

    bench.find(task, {"model": "minilm-tokens", "output_dtype": "binary", "rescore_multiplier": 2}, k=10)

    assert set(bench.store.names_of("token-vectors")) == before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"output_dtype": "float16"}, "token vectors have no `output_dtype: float16`; take int8, int4, binary"),
        ({"embed_dim": 64}, "leave out `embed_dim`.* late interaction, which takes .*output_dtype"),
    ],
)
def test_codes_that_token_vectors_do_not_have_are_refused(
    bench: Workbench, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        bench.first_stage({"model": "minilm-tokens", **settings})


@pytest.mark.parametrize(
    "retriever",
    [
        "bm25", MINILM, {"model": MINILM, "output_dtype": "int8"},
        "minilm-tokens", {"model": "minilm-tokens", "output_dtype": "binary"},
    ],
    ids=str,
)  # fmt: skip
def test_a_process_that_opens_an_index_does_not_import_pandas(
    bench: Workbench, task: Task, retriever: str | dict[str, object], tmp_path: Path
) -> None:
    bench.find(task, retriever, k=10)
    asked = (bench.store, task, bench.first_stage(retriever), bench.runner.device)
    (tmp_path / "asked").write_bytes(pickle.dumps(asked))
    # The import takes more than half a second and 40 MB, in each of the processes that hold shards.
    program = """
import pickle, sys
from pathlib import Path
store, task, first_stage, device = pickle.loads(Path(sys.argv[1]).read_bytes())
gathered = first_stage.gather(store, task, device)
first_stage.load_index(store, task, task.corpus.shards[0], gathered, device)
print("pandas" in sys.modules)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "asked")]

    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "False\n"


def test_indexes_of_codes_are_held_where_whole_vectors_would_not_be(bench: Workbench) -> None:
    # A bit for each component, which is stored in float32, or in float16 for tokens. A token has a factor of 32 bits,
    # and 96 components at least.
    assert bench.first_stage({"model": MINILM, "output_dtype": "binary"}).held_share == 1 / 32
    assert bench.first_stage({"model": "minilm-tokens", "output_dtype": "binary"}).held_share == (1 + 32 / 96) / 16
    assert bench.first_stage("minilm-tokens").held_share == bench.first_stage(MINILM).held_share == 1


def test_more_dimensions_than_the_model_has_are_refused_before_anything_runs(
    bench: Workbench, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"{MINILM}: `embed_dim` is 385, and its vectors have 384 dimensions"):
        bench.first_stage({"model": MINILM, "embed_dim": 385})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rescore_multiplier": 2}, "needs `output_dtype`"),
        ({"output_dtype": "int8", "index": "HNSW32"}, "give either `index` or `output_dtype`"),
        ({"output_dtype": "int3"}, "'int8', 'int4' or 'binary'"),
        ({"output_dtype": "binary", "clipping_margin": [0.1, 0.9]}, "needs `output_dtype` int8 or int4"),
        ({"clipping_margin": [0.1, 0.9]}, "needs `output_dtype` int8 or int4"),
        ({"output_dtype": "int4", "clipping_margin": [0.9, 0.1]}, r"0 < lower < upper < 1, not \[0.9, 0.1\]"),
    ],
)
def test_settings_that_don_t_fit_together_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RetrieverConfig.model_validate({"model": MINILM, **settings})
