"""Checkpoints of sentence-transformers that transformers computes alone have the library's vectors, bit for bit."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import transformers

from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.networks import checkpoints
from r2med_ray.models.networks.checkpoints import load_network
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.models.networks.plain_modules import PlainModules, plain_modules
from tests.unit import tiny_checkpoints

TEXTS = ["fever and rash", "acute renal lesion " * 40, "x", ""]
OLD = "sentence_transformers.models"


def checkpoint(
    folder: Path,
    *,
    pooling: dict[str, Any],
    unit_length: bool = False,
    settings: dict[str, Any] | None = None,
    more: tuple[str, ...] = (),
    causal: bool = False,
) -> Path:
    """Save a tiny checkpoint with these modules."""
    (tiny_checkpoints.llama if causal else tiny_checkpoints.bert)(folder)
    names = ["Transformer", "Pooling", *(["Normalize"] if unit_length else []), *more]
    modules = [
        {"idx": at, "name": str(at), "path": f"{at}_{name}" if at else "", "type": f"{OLD}.{name}"}
        for at, name in enumerate(names)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **pooling}))
    if settings is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
    return folder


MEAN = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "made",
    [
        pytest.param({"pooling": MEAN}, id="mean"),
        pytest.param({"pooling": MEAN, "unit_length": True}, id="mean of unit length"),
        pytest.param({"pooling": {"pooling_mode_cls_token": True}, "settings": {"max_seq_length": 7}}, id="cls, cut"),
        pytest.param({"pooling": {"pooling_mode_lasttoken": True}, "causal": True}, id="last"),
        pytest.param({"pooling": {"pooling_mode": "mean"}, "unit_length": True}, id="as of version 6"),
        pytest.param({"pooling": {}}, id="the library's own choice"),
    ],
)
def test_transformers_alone_gives_the_bytes_of_the_library(
    made: dict[str, Any], dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoint(tmp_path / "model", **made)
    values = {"name": "m", "model": str(folder), "pooling": "model", "max_length": 256, "dtype": dtype}
    assert_same(EncoderRow.model_validate(values), monkeypatch)
    assert_same(EncoderRow.model_validate(values | {"exclude_prompt_from_pooling": True}), monkeypatch)


def test_minilm_has_the_bytes_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(load_catalog().encoders["all-MiniLM-L6-v2"], monkeypatch)


def assert_same(row: EncoderRow, monkeypatch: pytest.MonkeyPatch) -> None:
    row = row.model_copy(update={"query_prompt": "find "})
    alone, network = build_encoder(row, task="t", device="cpu"), load_network(row, "cpu", "float32")
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "plain_modules", lambda folder: None)
        library, of_library = build_encoder(row, task="t", device="cpu"), load_network(row, "cpu", "float32")

    assert alone.encode_queries(TEXTS).tobytes() == library.encode_queries(TEXTS).tobytes()
    assert [each.tobytes() for each in alone.token_vectors(TEXTS)] == [
        each.tobytes() for each in library.token_vectors(TEXTS)
    ]
    assert (network.max_length, network.dim) == (of_library.max_length, of_library.dim)
    assert network.tokenizer(TEXTS)["input_ids"] == of_library.tokenizer(TEXTS)["input_ids"]


def test_minilm_is_loaded_without_importing_the_library() -> None:
    program = (
        "import sys\n"
        "from r2med_ray.models.catalog.load import load_catalog\n"
        "from r2med_ray.models.networks.encoders import build_encoder\n"
        "build_encoder(load_catalog().encoders['all-MiniLM-L6-v2'], task='t', device='cpu')\n"
        "sys.exit('sentence_transformers' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_what_is_plain_is_told(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "m", pooling=MEAN, unit_length=True, settings={"max_seq_length": 99})

    assert plain_modules(folder) == PlainModules(pooling="mean", unit_length=True, max_length=99)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param({"pooling": MEAN, "more": ("Dense",)}, id="a layer behind it"),
        pytest.param({"pooling": {"pooling_mode_max_tokens": True}}, id="another pooling"),
        pytest.param({"pooling": MEAN | {"pooling_mode_cls_token": True}}, id="two poolings"),
        pytest.param({"pooling": MEAN | {"include_prompt": False}}, id="no prompt"),
        pytest.param({"pooling": MEAN, "settings": {"do_lower_case": True}}, id="lower case"),
        pytest.param({"pooling": MEAN, "settings": {"transformer_task": "fill-mask"}}, id="another head"),
    ],
)
def test_whatever_else_a_checkpoint_does_is_left_to_the_library(made: dict[str, Any], tmp_path: Path) -> None:
    assert plain_modules(checkpoint(tmp_path / "m", **made)) is None


def test_a_module_that_comes_with_the_checkpoint_is_left_to_the_library(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "m", pooling=MEAN)
    (folder / "modules.json").write_text(
        (folder / "modules.json").read_text().replace(f"{OLD}.Pooling", "my.Pooling")
    )

    assert plain_modules(folder) is None


def test_a_tokenizer_that_writes_chat_messages_is_left_to_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoint(tmp_path / "m", pooling=MEAN)
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    tokens.chat_template = "{{ messages }}"
    tokens.save_pretrained(folder)
    asked: list[Path] = []
    monkeypatch.setattr(checkpoints, "_with_library", lambda folder, *rest: asked.append(folder))
    values = {"name": "m", "model": str(folder), "pooling": "model", "max_length": 256}

    load_network(EncoderRow.model_validate(values), "cpu", "float32")

    assert asked == [folder]
