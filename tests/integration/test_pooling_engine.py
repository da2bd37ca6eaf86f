"""vLLM's pooling runner and sentence-transformers make the same vectors of the same tokens."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.protocols import Encoder, taken_cuts
from r2med_ray.settings.resources import EncodeResources, ResourcesConfig
from r2med_ray.types import Document
from r2med_ray.workbench.bench import open_workbench
from tests.integration.language_server import needs_vllm
from tests.unit.tasks import WORDS, texts_of_words
from tests.unit.tiny_checkpoints import vllm_model, with_pooling, word_pieces

pytestmark = [pytest.mark.llm, needs_vllm, pytest.mark.filterwarnings("ignore")]

LIMIT = 16
INSTRUCTION = "Instruct: find passages that help\nQuery: "
RANDOM = np.random.default_rng(5)
TEXTS = [" ".join(RANDOM.choice(WORDS, length)) for length in (1, 4, 15, 16, 17, 60, 3, 60)]
"""Texts shorter and longer than the limit, and of its length with and without the end token."""

DOCUMENTS = [Document(doc_id=str(number), title="a case", text=text) for number, text in enumerate(TEXTS)]
CHECKPOINTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "modules with the last token": ("Qwen3ForCausalLM", {"pooling": "model"}),
    "the last token, which is an end token": ("LlamaForCausalLM", {"pooling": "last", "append_eos": True}),
    "the mean": ("MistralForCausalLM", {"pooling": "mean", "similarity": "dot"}),
    "the first token": ("BertModel", {"pooling": "cls"}),
}


def row(folder: Path, engine: str, **values: Any) -> EncoderRow:
    given = {"name": engine, "model": str(folder), "max_length": LIMIT, "query_max_length": 2 * LIMIT}
    given |= {"query_prompt": INSTRUCTION, "dtype": "float32", "engine": engine}
    return EncoderRow.model_validate(given | values)


def checkpoint(folder: Path, model_class: str) -> Path:
    tokens = word_pieces(template="$A", end="[unused0]", padding_side="left")
    return with_pooling(vllm_model(folder, model_class, tokens), "lasttoken", 64)


def encoder(row: EncoderRow) -> Encoder:
    return TaskEncoders(row, device="cpu", token_budget=256, kv_cache_gib=1).for_task("t")


def least_cosine(ours: np.ndarray, theirs: np.ndarray) -> float:
    products = (ours.astype(np.float64) * theirs).sum(axis=1)
    return float((products / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)).min())


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_both_engines_make_the_same_vectors(kind: str, tmp_path: Path) -> None:
    model_class, values = CHECKPOINTS[kind]
    folder = checkpoint(tmp_path, model_class)
    plain, engine = (encoder(row(folder, name, **values)) for name in ("sentence-transformers", "vllm"))

    queries, theirs = engine.encode_queries(TEXTS), plain.encode_queries(TEXTS)
    documents, their_documents = engine.encode_documents(DOCUMENTS), plain.encode_documents(DOCUMENTS)

    assert least_cosine(queries, theirs) >= 0.9999
    assert least_cosine(documents, their_documents) >= 0.9999
    # Vectors of other texts are far from that, so the numbers above say something.
    assert least_cosine(queries, np.roll(theirs, 1, axis=0)) < 0.99
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), np.linalg.norm(theirs, axis=1), rtol=1e-4)
    cuts = taken_cuts(engine)
    assert cuts is not None
    assert cuts == taken_cuts(plain)
    assert cuts["document"].lost > 0


def test_the_same_texts_have_the_same_bytes_whatever_was_encoded_before(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, "Qwen3ForCausalLM")
    engine = encoder(row(folder, "vllm", pooling="last"))
    first = engine.encode_documents(DOCUMENTS)
    engine.encode_queries(TEXTS[:3])

    assert engine.encode_documents(DOCUMENTS).tobytes() == first.tobytes()
    with pytest.raises(ConfigError, match="the engine of another encoder runs in this process"):
        encoder(row(folder, "vllm", pooling="last"))
    del engine
    assert encoder(row(folder, "vllm", pooling="last")).encode_documents(DOCUMENTS).tobytes() == first.tobytes()


def test_an_engine_gives_its_memory_back_when_its_encoder_is_gone(tmp_path: Path) -> None:
    engine = encoder(row(checkpoint(tmp_path, "Qwen3ForCausalLM"), "vllm", pooling="last"))
    loaded = psutil.Process().memory_info().rss
    del engine

    # Half of its GiB for keys and values, at least.
    assert loaded - psutil.Process().memory_info().rss > 2**29


def test_vllm_can_not_start_with_a_checkpoint_that_lacks_weights(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, "Qwen3ForCausalLM")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3, "layer_types": None}))

    with pytest.raises(ConfigError, match=r"encoder 'vllm': `engine: vllm` can't start with .*not initialized"):
        encoder(row(folder, "vllm", pooling="last"))


@pytest.mark.ray
def test_a_search_on_a_cluster_ranks_as_that_of_the_other_engine_in_process(tmp_path: Path, address: str) -> None:
    checkpoint(tmp_path / "m", "Qwen3ForCausalLM")
    shared = f"pooling: model, max_length: {LIMIT}, query_max_length: 32, dtype: float32, query_prompt: 'find: '"
    rows = [
        f"  - {{name: {name}, model: ./m, engine: {name}, {shared}}}" for name in ("sentence-transformers", "vllm")
    ]
    (tmp_path / "models.yaml").write_text("\n".join(["encoders:", *rows]))
    texts = texts_of_words(30, seed=5)
    given = {
        "documents": {f"d{number}": text for number, text in enumerate(texts)},
        "queries": {f"q{number}": f"{text} please" for number, text in enumerate(texts[:6])},
    }
    resources = ResourcesConfig(shards=2, encode=EncodeResources(actors=1, kv_cache_gib=1))
    models = tmp_path / "models.yaml"
    with open_workbench(tmp_path / "store", models=models) as bench:
        expected = bench.find(bench.task("mine", **given), "sentence-transformers", k=5)
    with open_workbench(tmp_path / "store", address=address, models=models, resources=resources) as bench:
        found = bench.find(bench.task("mine", **given), "vllm", k=5)

    assert {query: [hit.doc_id for hit in hits] for query, hits in found.rankings.items()} == {
        query: [hit.doc_id for hit in hits] for query, hits in expected.rankings.items()
    }
