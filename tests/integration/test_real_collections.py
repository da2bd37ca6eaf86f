"""On MED, NFCorpus and PubMedQA, if they are here, we get the figures that others measured."""

from pathlib import Path

import pytest
import yaml

from r2med_ray import open_workbench
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task
from r2med_ray.reporting.write import load_results
from r2med_ray.settings.config import TaskConfig
from tests.integration.jobs import run_job

pytestmark = [pytest.mark.ray, pytest.mark.serve, pytest.mark.real]

CONFIG = {
    "name": "real",
    "baseline": "bm25",
    "systems": [
        {"name": "bm25", "retriever": "bm25"},
        {"name": "minilm", "retriever": "all-MiniLM-L6-v2"},
    ],
    "resources": {"documents_per_shard": 600},
}


def test_med_gives_the_figures_that_others_measured(real_collections: Path, tmp_path: Path) -> None:
    task = {"path": str(real_collections / "med"), "name": "MED", "layout": "r2med"}
    (tmp_path / "real.yaml").write_text(yaml.safe_dump({**CONFIG, "tasks": [task]}))
    run_job(tmp_path / "real.yaml", cwd=tmp_path)
    record = load_results(tmp_path / "results" / "real")
    ndcg = {result.system: result.evaluation.means["nDCG@10"] for result in record.results}
    recall = {result.system: result.evaluation.means["R@100"] for result in record.results}

    # all-MiniLM-L6-v2 through sentence-transformers has nDCG@10 0.7875 and R@100 0.9579.
    assert ndcg["minilm"] == pytest.approx(0.7875, abs=0.002)
    assert recall["minilm"] == pytest.approx(0.9579, abs=0.002)
    # BM25 without a stemmer has nDCG@10 0.6635.
    assert ndcg["bm25"] > 0.66


@pytest.mark.parametrize(
    ("name", "expected"),
    [("scifact", 0.6789), ("nfcorpus", 0.3218), ("trec-covid", 0.5947)],
)
def test_bm25_lucene_gives_anserinis_flat_figures_of_beir_to_four_decimals(
    name: str, expected: float, real_collections: Path, tmp_path: Path
) -> None:
    # nDCG@10 of https://castorini.github.io/pyserini/2cr/beir.html, column "BM25 Flat".
    folder = real_collections.parent / "beir" / name
    if not folder.is_dir():
        pytest.skip(f"BEIR's {name} is not here: {folder}")
    with open_workbench(tmp_path / "store") as bench:
        [source] = resolve_tasks([TaskConfig(path=str(folder), layout="beir", name=name)])
        task = load_task(source, bench.store, documents_per_shard=25_000)
        run = bench.rank(task, {"retriever": "bm25-lucene"}).run
        assert round(bench.measure(run, task, ["nDCG@10"]).means["nDCG@10"], 4) == expected
