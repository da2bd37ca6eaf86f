"""The job on Ray over a Nano set that was built here: profiles, lists and reranking, with and without safeguards."""

from pathlib import Path

import pytest

from r2med_ray.evaluation.trec import write_run
from r2med_ray.interop.nano.build import build_nano
from r2med_ray.reporting.write import load_results
from r2med_ray.retrieval.ranked_lists import in_order, read_lists
from r2med_ray.types import Run
from tests.integration.jobs import run_job, write_config
from tests.unit.corpus_files import write_r2med

pytestmark = [pytest.mark.ray, pytest.mark.serve]

DOC_IDS = [f"d{number:03d}" for number in range(250)]
SPLIT = "NanoTiny"
SYSTEMS = [
    {"name": "bm25-nano", "retriever": "bm25-nano"},
    {"name": "bm25-list", "retriever": {"candidates": "bm25"}},
    {
        "name": "hybrid",
        "retrievers": [{"candidates": "bm25"}, {"candidates": "dense"}],
        "fusion": {"method": "nano", "k": 100, "depth": 500},
    },
    {"name": "hybrid-list", "retriever": {"candidates": "reranking_hybrid", "safeguard": "drop"}},
    {
        "name": "maxsim",
        "retriever": {"candidates": "reranking_hybrid"},
        "reranker": {"model": "maxsim-minilm", "depth": 101},
    },
    {
        "name": "maxsim-dropped",
        "retriever": {"candidates": "reranking_hybrid", "safeguard": "drop"},
        "reranker": {"model": "maxsim-minilm", "depth": 100},
    },
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, address: str) -> Path:
    """The results of the job over a pool of 250 documents.

    Fusion puts the positive of q2 in the middle of the ranking, so that q2 needs its safeguard.
    """
    folder = tmp_path_factory.mktemp("nano")
    texts = {doc_id: f"note {number}" for number, doc_id in enumerate(DOC_IDS)}
    texts |= {"d100": "a fever after the operation", "d120": "swelling of the left knee joint"}
    source = write_r2med(
        folder / "source",
        corpus=texts.items(),
        queries=[("q1", "fever after an operation"), ("q2", "the knee is swollen and hurts")],
        qrels=[("q1", "d100", 1), ("q2", "d120", 1)],
    )
    rest = [doc_id for doc_id in DOC_IDS if doc_id != "d120"]
    write_run(folder / "dense.trec", Run(tag="d", rankings=dict.fromkeys(("q1", "q2"), in_order(rest))))
    build_nano([source], folder / "set", num_queries=200, num_documents=10_000, dense=str(folder / "dense.trec"))
    task = {"path": str(folder / "set"), "layout": "nano", "name": SPLIT, "split": SPLIT}
    config = write_config(
        folder / "nano.yaml",
        tasks=[task],
        systems=SYSTEMS,
        baseline="bm25-nano",
        measures=["nDCG@10", "Success@10", "R@100", "Success@100"],
        depth=500,
        resources={"documents_per_shard": 90},
    )
    run_job(config, cwd=folder, address=address)
    return folder


def test_every_system_is_what_its_list_says(results: Path) -> None:
    record = load_results(results / "results" / "small")
    runs = {result.system: result.run.rankings for result in record.results}
    evaluations = {result.system: result.evaluation for result in record.results}
    hybrid = read_lists(results / "set" / "reranking_hybrid" / f"{SPLIT}.parquet")
    bm25 = read_lists(results / "set" / "bm25" / f"{SPLIT}.parquet")

    assert [len(hybrid[query]) for query in ("q1", "q2")] == [100, 101]
    assert runs["bm25-list"] == {query: in_order(ids) for query, ids in bm25.items()}
    for query, ranking in runs["bm25-nano"].items():  # three shards; the list also has unmatched documents
        assert [hit.doc_id for hit in ranking] == list(bm25[query])[: len(ranking)]
    assert runs["hybrid"] == runs["hybrid-list"] == {query: in_order(ids[:100]) for query, ids in hybrid.items()}
    # The safeguard of q2 is its only positive. Reranking moves it up. Without it, no positive can be found.
    assert {hit.doc_id for hit in runs["maxsim"]["q2"]} == set(hybrid["q2"])
    assert evaluations["maxsim"].means["Success@10"] == 1.0
    assert evaluations["maxsim-dropped"].means["Success@100"] == 0.5
    assert any("1 of 2 lists of reranking_hybrid" in warning for warning in record.tasks[0].warnings)
