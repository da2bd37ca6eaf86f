"""Tests that need a GPU: half precision is close, kernels agree with the CPU's, and memory runs out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from r2med_ray.errors import DataError
from r2med_ray.models.catalog.devices import best_device, best_dtype
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.networks.cross_encoders import CrossEncoderScorer
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.models.networks.maxsim import MaxSimScorer
from r2med_ray.models.networks.yes_no import YesNoScorer
from r2med_ray.types import FloatMatrix
from tests.unit import tiny_checkpoints

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

TEXTS = [
    f"{disease} " * repeats + "in a child" for disease in ("measles", "nephropathy") for repeats in (1, 7, 90, 400)
]
PAIRS = [(query, text) for query in ("fever and rash", "kidney failure") for text in TEXTS]

Checkpoint = Callable[[Path], Path]
WIRINGS = [
    pytest.param(tiny_checkpoints.bert, {"pooling": "cls"}, id="bert-cls"),
    pytest.param(tiny_checkpoints.bert, {"pooling": "mean", "similarity": "dot"}, id="bert-mean"),
    pytest.param(tiny_checkpoints.llama, {"pooling": "last", "append_eos": True}, id="llama-last"),
]


def row(folder: Path, **values: object) -> EncoderRow:
    return EncoderRow.model_validate({"name": "tiny", "model": str(folder), "max_length": 512, **values})


def cosines(left: FloatMatrix, right: FloatMatrix) -> FloatMatrix:
    return (left * right).sum(axis=1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)


def test_auto_is_a_gpu_and_its_half_precision() -> None:
    assert best_device() == "cuda"
    assert best_dtype("cuda") == "bfloat16"


@pytest.mark.parametrize(("checkpoint", "values"), WIRINGS)
def test_a_gpu_embeds_as_the_cpu_does(tmp_path: Path, checkpoint: Checkpoint, values: dict[str, object]) -> None:
    encoder_row = row(checkpoint(tmp_path), dtype="float32", **values)
    on = {
        device: build_encoder(encoder_row, task="x", device=device).encode_plain(TEXTS) for device in ("cpu", "cuda")
    }

    assert on["cuda"] == pytest.approx(on["cpu"], abs=1e-4 * float(np.abs(on["cpu"]).max()))


@pytest.mark.parametrize(("checkpoint", "values"), WIRINGS)
def test_half_precision_stays_close(tmp_path: Path, checkpoint: Checkpoint, values: dict[str, object]) -> None:
    encoder_row = row(checkpoint(tmp_path), **values)
    exact = build_encoder(encoder_row, task="x", device="cpu", dtype="float32").encode_plain(TEXTS)

    assert cosines(build_encoder(encoder_row, task="x", device="cuda").encode_plain(TEXTS), exact).min() >= 0.99


def test_a_real_encoder_stays_close_in_half_precision() -> None:
    minilm = load_catalog().encoders["all-MiniLM-L6-v2"]
    exact = build_encoder(minilm, task="x", device="cpu", dtype="float32").encode_plain(TEXTS)
    close = build_encoder(minilm, task="x", device="cuda", dtype=best_dtype("cuda")).encode_plain(TEXTS)

    assert cosines(close, exact).min() >= 0.999


def test_the_same_texts_give_the_same_bytes() -> None:
    encoder = build_encoder(load_catalog().encoders["all-MiniLM-L6-v2"], task="x", device="cuda")

    assert encoder.encode_plain(TEXTS).tobytes() == encoder.encode_plain(TEXTS).tobytes()


def test_rerankers_score_as_on_the_cpu(tmp_path: Path) -> None:
    classifier = tiny_checkpoints.classifier(tmp_path / "classifier")
    cross = RerankerRow(name="c", kind="cross-encoder", model=str(classifier), dtype="float32")
    scores = {device: CrossEncoderScorer(cross, device=device).score_pairs(PAIRS) for device in ("cpu", "cuda")}
    assert scores["cuda"] == pytest.approx(scores["cpu"], abs=1e-3)

    encoders = {
        device: build_encoder(row(classifier, pooling="cls", dtype="float32"), task="x", device=device)
        for device in ("cpu", "cuda")
    }
    late = {device: MaxSimScorer(encoder).score_pairs(PAIRS) for device, encoder in encoders.items()}
    assert late["cuda"] == pytest.approx(late["cpu"], abs=1e-2)


def test_yes_or_no_is_answered_as_on_the_cpu(tmp_path: Path) -> None:
    import transformers

    heads = {"num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 512}
    config = transformers.Qwen3Config(**tiny_checkpoints.SMALL, **heads)
    folder = tiny_checkpoints.save(tmp_path, "Qwen3ForCausalLM", config, tiny_checkpoints.tokenizer())
    asked = RerankerRow(name="y", kind="yes-no", model=str(folder), dtype="float32", suffix=" answer :")
    scores = {device: YesNoScorer(asked, device=device).score_pairs(PAIRS) for device in ("cpu", "cuda")}

    assert scores["cuda"] == pytest.approx(scores["cpu"], abs=1e-3)


@pytest.fixture
def little_memory() -> object:
    """A GPU of whose memory this process may use 400 MiB more than it has reserved now."""
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 400 * 2**20) / total)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


@pytest.mark.usefixtures("little_memory")
def test_a_batch_that_does_not_fit_is_halved_until_it_does() -> None:
    minilm = load_catalog().encoders["all-MiniLM-L6-v2"]
    texts = ["fever rash " * 126] * 4096  # 4,096 × 256 tokens × 1,536 values × 4 bytes are 6 GB in one layer alone
    encoder = build_encoder(minilm, task="x", device="cuda", dtype="float32", token_budget=4096 * 256)

    vectors = encoder.encode_plain(texts)

    assert torch.cuda.max_memory_reserved() < 2**30
    assert vectors == pytest.approx(np.repeat(vectors[:1], len(texts), axis=0), abs=1e-5)


@pytest.mark.usefixtures("little_memory")
def test_a_text_that_never_fits_is_named() -> None:
    minilm = load_catalog().encoders["all-MiniLM-L6-v2"]
    encoder = build_encoder(minilm, task="x", device="cuda", dtype="float32")
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)

    with pytest.raises(DataError, match="position 0 of the batch does not fit into memory, even alone"):
        encoder.encode_plain(["fever rash " * 126])
