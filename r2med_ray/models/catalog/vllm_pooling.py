"""What vLLM's pooling runner has to compute of a checkpoint, and what it can't compute, before an engine is started.

vLLM 0.29 pools the states of a text's tokens by their mean, or takes the state of the first or the last token. It
reads the files of sentence-transformers too, and leaves out what it doesn't know, so everything else in them is
refused here.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog import sources
from r2med_ray.models.catalog.encoders import EncoderRow

Pooling: TypeAlias = Literal["mean", "cls", "last"]

_MODES: Mapping[str, Pooling] = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
"""Name of a pooling in a file of sentence-transformers → name in a row."""

_WIRINGS = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_LEGACY_MODE = "pooling_mode_"
_READ = {"max_seq_length", "transformer_task", "modality_config", "module_output_name"}
"""Keys of a checkpoint's `sentence_*_config.json` that are read here, or that say what holds for every encoder."""


class Pooled(NamedTuple):
    """How vLLM makes a vector of a text."""

    pooling: Pooling
    unit_length: bool
    """Whether the checkpoint itself divides its vectors by their length."""

    max_length: int | None
    """Most tokens of a text, as the checkpoint says for sentence-transformers; None if it doesn't."""


def require_engine(row: object) -> None:
    """Refuse an encoder with `engine: vllm` that vLLM can't compute, as far as files on this machine tell it.

    Raises:
        ConfigError: names the row, the value, and what would be right.
    """
    if not isinstance(row, EncoderRow) or row.engine != "vllm":
        return
    if row.dtype == "fastest":  # a benchmark file may say so, for all encoders
        raise ConfigError(
            f"{where(row)} takes no `dtype: fastest`, which measures two models in one process; give `dtype` auto, "
            f"float32, bfloat16 or float16 to this retriever"
        )
    folder = sources.cached(row.model, row.revision)
    if folder is not None:
        pooled_by_vllm(row, folder)


def pooled_by_vllm(row: EncoderRow, folder: Path) -> Pooled:
    """Return how vLLM makes vectors of the checkpoint in a folder.

    Raises:
        ConfigError: it can't make those that the row describes; names the row, the value, and what would be right.
    """
    config = _read(folder / "config.json")
    if config.get("is_causal") is False or config.get("use_bidirectional_attention"):
        raise ConfigError(
            f"{where(row)} has the attention of the model's architecture, and {folder / 'config.json'} makes a "
            f"causal model bidirectional; leave `engine` out"
        )
    modules = _read(folder / "modules.json", [])
    wiring = [str(module["type"]).rpartition(".")[2] for module in modules]
    if "Dense" in wiring:  # vLLM applies such a layer, whatever pooling it is told
        raise ConfigError(f"{where(row)} computes no layer after pooling, and {folder} has the modules {wiring}")
    if row.pooling == "mean" or row.pooling == "cls" or row.pooling == "last":
        return Pooled(row.pooling, unit_length=False, max_length=None)
    if wiring not in _WIRINGS or modules[0]["path"]:
        raise ConfigError(
            f"{where(row)} knows the modules Transformer, Pooling and Normalize, in this order, and {folder} has "
            f"{wiring}; give `pooling: mean`, `cls` or `last` if that is what the checkpoint does"
        )
    pooling = _pooling(row, folder / modules[1]["path"] / "config.json")
    return Pooled(pooling, "Normalize" in wiring, _longest(row, folder))


def _pooling(row: EncoderRow, file: Path) -> Pooling:
    config = _read(file)
    legacy = [key for key, value in config.items() if key.startswith(_LEGACY_MODE) and value]
    modes: str | Sequence[str] = config.get("pooling_mode") or legacy or "mean"
    modes = [modes] if isinstance(modes, str) else modes
    named = [mode.removeprefix(_LEGACY_MODE).removesuffix("_tokens").removesuffix("_token") for mode in modes]
    if len(named) != 1 or named[0] not in _MODES:
        raise ConfigError(f"{where(row)} pools by {', '.join(_MODES)}, and {file} says {', '.join(named)}")
    if not config.get("include_prompt", True):
        raise ConfigError(
            f"{where(row)} pools all tokens of a text, and {file} leaves those of the prompt out; leave `engine` out"
        )
    return _MODES[named[0]]


def _longest(row: EncoderRow, folder: Path) -> int | None:
    """Return the most tokens of a text by the settings of the module `Transformer`; None if they don't tell."""
    file = next(iter(sorted(folder.glob("sentence_*_config.json"))), folder / "sentence_bert_config.json")
    settings = _read(file)
    unread = {key: value for key, value in settings.items() if value and key not in _READ}
    if "message" in settings.get("modality_config", {}):
        unread["modality_config"] = settings["modality_config"]
    if unread:
        raise ConfigError(f"{where(row)} knows no {unread!r:.200} of {file}; leave `engine` out")
    longest: int | None = settings.get("max_seq_length")
    return longest


def where(row: EncoderRow) -> str:
    """Return how an error begins that is about a row's engine."""
    return f"encoder {row.name!r}: `engine: vllm`"


def _read(file: Path, otherwise: Any = None) -> Any:
    """Return what a JSON file says; `otherwise`, or an empty object, if there is none."""
    return json.loads(file.read_text("utf-8")) if file.is_file() else ({} if otherwise is None else otherwise)
