"""Checks a served language model's settings against its checkpoint and its device, before minutes of start are spent.

What vLLM 0.29 would refuse (`vllm/config/model.py`: `_get_and_verify_max_len`, `verify_with_parallel_config`) is
refused here. What can't be read without the model's own code is left to vLLM.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog import sources
from r2med_ray.models.catalog.language_models import LanguageModelRow

_LENGTHS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions"),
    *("max_sequence_length", "max_seq_length", "seq_len"),
)
"""Keys of a `config.json` for the most tokens of a model. vLLM takes the smallest."""

_SCALED_ALREADY = ("su", "longrope", "llama3")
"""Kinds of scaled rotary positions whose factor is in the number of positions already."""

_UNREADABLE = frozenset({"hf_overrides", "hf_config_path", "config_format", "load_format", "quantization"})
"""Arguments of vLLM with which it reads other numbers, or other weights, than those of the files."""

_LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
"""The environment variable that has vLLM take any length."""


def require_fit(row: LanguageModelRow, *, memory_gb: float | None) -> None:
    """Check a served model if this machine has its files. Nothing is downloaded, and no weight is read.

    Args:
        row: the row of the model.
        memory_gb: memory of the device of each worker, in GB; None if it is not known.

    Raises:
        ConfigError: the engine can't start; says which setting is wrong, and what would be right.
    """
    folder = sources.cached(row.model, row.revision)
    if folder is None or not (folder / "config.json").is_file() or _UNREADABLE & row.engine.keys():
        return
    where = f"language model {row.name!r}: engine:"
    config = _read(folder / "config.json")
    config = config.get("text_config") or config
    asked, most = row.engine.get("max_model_len"), _most_tokens(config)
    if isinstance(asked, int) and most is not None and asked > most and not os.environ.get(_LONGER):
        raise ConfigError(
            f"{where} max_model_len {asked} is more than the {most} positions of the model; "
            f"{folder / 'config.json'} says so. Set {most} or less"
        )
    heads, shares = config.get("num_attention_heads"), int(row.engine.get("tensor_parallel_size", 1))
    if isinstance(heads, int) and heads % shares:
        fitting = ", ".join(str(count) for count in range(1, heads + 1) if heads % count == 0)
        raise ConfigError(
            f"{where} tensor_parallel_size {shares} does not divide the {heads} attention heads of the model. "
            f"Set one of {fitting}"
        )
    share_gb = _weights_gb(folder, config, row) / row.workers
    if memory_gb is not None and share_gb > memory_gb:
        raise ConfigError(
            f"{where} each of {row.workers} workers would take {share_gb:.1f} GB of weights, and the device has "
            f"{memory_gb:.1f} GB. Set a larger tensor_parallel_size, or take a smaller model"
        )


def _read(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise ConfigError(f"{file}: the file of a checkpoint should be JSON: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: expected an object, got {values!r:.80}")
    return values


def _most_tokens(text: Mapping[str, Any]) -> int | None:
    """Return the most tokens of a model as vLLM derives them; None if the files don't say it."""
    lengths = [value for key in _LENGTHS if isinstance(value := text.get(key), int)]
    if own := text.get("model_max_length"):
        lengths = [own]
    if not lengths:
        return None
    most = float(min(lengths))
    if "gemma3" in str(text.get("model_type", "")):
        return int(most)
    factor = 1.0
    for scaling in _scalings(text.get("rope_parameters") or text.get("rope_scaling") or {}):
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind not in _SCALED_ALREADY:
            factor = scaling.get("factor", factor) or 1.0
            if kind == "yarn" and (original := scaling.get("original_max_position_embeddings")):
                most = float(original)
    return int(most * factor)


def _scalings(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the scalings of rotary positions: one for all layers, or one per kind of layer."""
    nested = [item for item in value.values() if isinstance(item, Mapping)]
    return nested or [value]


def _weights_gb(folder: Path, config: Mapping[str, Any], row: LanguageModelRow) -> float:
    """Return the memory of the weights in the engine's dtype, in GB; 0 if the files don't say it."""
    index, whole = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if index.is_file():
        size = _read(index).get("metadata", {}).get("total_size", 0)
    else:
        size = whole.stat().st_size if whole.is_file() else 0
    stored = config.get("dtype") or config.get("torch_dtype")
    wanted = str(row.engine.get("dtype", row.dtype))
    if "quantization_config" in config:
        pass  # the files have the size that the weights have in memory
    elif stored == "float32" and wanted != "float32":
        size /= 2  # vLLM computes with half precision unless it is told not to
    elif stored in ("bfloat16", "float16") and wanted == "float32":
        size *= 2
    return float(size / 2**30)
