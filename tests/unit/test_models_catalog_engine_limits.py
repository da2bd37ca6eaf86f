"""An engine that can't start is refused before it is started, with the setting that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.engine_limits import require_fit
from r2med_ray.models.catalog.language_models import LanguageModelRow

GIB = 2**30


def row(folder: Path, config: dict[str, Any], **values: Any) -> LanguageModelRow:
    (folder / "config.json").write_text(json.dumps(config))
    return LanguageModelRow.model_validate({"name": "m", "model": str(folder), **values})


def check(folder: Path, config: dict[str, Any], memory_gb: float | None = None, **values: Any) -> None:
    require_fit(row(folder, config, **values), memory_gb=memory_gb)


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"max_position_embeddings": 512}, 512),
        ({"n_positions": 1024}, 1024),
        # the smallest counts
        ({"max_position_embeddings": 4096, "seq_length": 2048}, 2048),
        ({"text_config": {"max_position_embeddings": 8192}}, 8192),
        # `model_max_length` replaces the number of positions (Command-R)
        ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
        # linear: 4096 positions × factor 2
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 2.0}}, 8192),
        # YaRN: 32768 original positions × factor 4, whatever the number of positions says
        (
            {
                "max_position_embeddings": 40960,
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            },
            131072,
        ),
        # llama3: the factor is in the number of positions already
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        ({"max_position_embeddings": 4096, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, 4096),
        (
            {"max_position_embeddings": 4096, "rope_parameters": {"full_attention": {"rope_type": "default"}}},
            4096,
        ),
    ],
)
def test_a_length_above_the_models_positions_is_refused_with_the_most_that_is_right(
    tmp_path: Path, config: dict[str, Any], most: int
) -> None:
    check(tmp_path, config, engine={"max_model_len": most})
    with pytest.raises(
        ConfigError, match=f"'m': engine: max_model_len {most + 1} is more than the {most} .*Set {most}"
    ):
        check(tmp_path, config, engine={"max_model_len": most + 1})


@pytest.mark.parametrize(
    "engine",
    [
        {"max_model_len": 10**6, "hf_overrides": {"max_position_embeddings": 10**6}},
        {"max_model_len": -1},
        {"max_model_len": "32k"},
        {},
    ],
)
def test_what_only_vllm_can_tell_is_left_to_vllm(tmp_path: Path, engine: dict[str, Any]) -> None:
    check(tmp_path, {"max_position_embeddings": 512}, engine=engine)
    check(tmp_path, {}, engine={"max_model_len": 10**6})


def test_vllms_own_permission_for_longer_texts_is_heeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")

    check(tmp_path, {"max_position_embeddings": 512}, engine={"max_model_len": 1024})


def test_workers_have_to_divide_the_attention_heads(tmp_path: Path) -> None:
    check(tmp_path, {"num_attention_heads": 12}, engine={"tensor_parallel_size": 4})
    with pytest.raises(
        ConfigError, match=r"tensor_parallel_size 8 does not divide the 12 .*Set one of 1, 2, 3, 4, 6, 12"
    ):
        check(tmp_path, {"num_attention_heads": 12}, engine={"tensor_parallel_size": 8})


def weights(folder: Path, gib: float) -> None:
    index = {"metadata": {"total_size": gib * GIB}, "weight_map": {}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("config", "values", "share_gb"),
    [
        ({"dtype": "bfloat16"}, {}, 16.0),
        ({"torch_dtype": "bfloat16"}, {"dtype": "float32"}, 32.0),
        # the files of a quantized model have the size that it has in memory
        ({"dtype": "bfloat16", "quantization_config": {"bits": 4}}, {"dtype": "float32"}, 16.0),
        # vLLM computes with half precision, so 16 GiB of float32 are 8
        ({"torch_dtype": "float32"}, {}, 8.0),
        ({"dtype": "bfloat16", "num_attention_heads": 8}, {"engine": {"tensor_parallel_size": 2}}, 8.0),
    ],
)
def test_weights_have_to_fit_on_the_device(
    tmp_path: Path, config: dict[str, Any], values: dict[str, Any], share_gb: float
) -> None:
    weights(tmp_path, 16)

    check(tmp_path, config, share_gb + 0.1, **values)
    check(tmp_path, config, None, **values)
    with pytest.raises(
        ConfigError, match=rf"would take {share_gb} GB of weights, and the device has {share_gb - 0.1}"
    ):
        check(tmp_path, config, share_gb - 0.1, **values)


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_damaged_file_of_a_checkpoint_is_named(tmp_path: Path, content: str) -> None:
    model = row(tmp_path, {})
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(
        ConfigError, match=r"config\.json: (?:the file of a checkpoint should be JSON|expected an object)"
    ):
        require_fit(model, memory_gb=None)


def test_a_model_that_is_not_on_this_machine_is_left_to_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    elsewhere = {"name": "m", "model": "org/m", "engine": {"max_model_len": 10**9}}

    require_fit(LanguageModelRow.model_validate(elsewhere), memory_gb=1.0)
    require_fit(LanguageModelRow.model_validate(elsewhere | {"revision": "0" * 40}), memory_gb=1.0)
