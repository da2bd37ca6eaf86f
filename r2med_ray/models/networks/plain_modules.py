"""Checkpoints of sentence-transformers that transformers alone computes: a network, a pooling, and unit length.

Importing sentence-transformers takes 3 to 5 seconds of CPU time in every process, as it imports scikit-learn, pandas
and datasets. Most checkpoints need nothing of it. Their vectors are the same to the last bit either way.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TRANSFORMER, _POOLING, _NORMALIZE = "Transformer", "Pooling", "Normalize"
_SETTINGS = "sentence_bert_config.json"

_MODES = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
"""The library's name of a pooling → the name in `pooling.POOLINGS`."""

_FLAGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "lasttoken"}
"""Names of poolings in checkpoints from before version 6 of the library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainModules:
    """What is done with the states of a network."""

    pooling: str
    """A name in `pooling.POOLINGS`."""

    unit_length: bool
    max_length: int | None
    """Most tokens of a text; None leaves it to the tokenizer."""


def plain_modules(folder: Path) -> PlainModules | None:
    """Return what a checkpoint does with the states of its network; None if only the library itself can tell.

    Args:
        folder: a checkpoint of sentence-transformers, which has a `modules.json`.
    """
    modules = _json(folder / "modules.json")
    names = [module["type"].rpartition(".")[2] for module in modules]
    are_of_library = all(module["type"].startswith("sentence_transformers.") for module in modules)
    if not are_of_library or modules[0]["path"]:
        return None
    if names not in ([_TRANSFORMER, _POOLING], [_TRANSFORMER, _POOLING, _NORMALIZE]):
        return None
    pooling, settings = _json(folder / modules[1]["path"] / "config.json"), _settings(folder)
    mode = _mode(pooling)
    if mode is None or settings is None or not pooling.get("include_prompt", True):
        return None
    return PlainModules(pooling=mode, unit_length=names[-1] == _NORMALIZE, max_length=settings.get("max_seq_length"))


def _settings(folder: Path) -> Mapping[str, Any] | None:
    """Return how the library reads texts; None if it does more than to cut them."""
    others = [path.name for path in folder.glob("sentence_*_config.json") if path.name != _SETTINGS]
    settings = _json(folder / _SETTINGS) if (folder / _SETTINGS).is_file() else {}
    is_plain = settings.keys() <= {"max_seq_length", "do_lower_case"} and not settings.get("do_lower_case")
    return settings if is_plain and not others else None


def _mode(pooling: Mapping[str, Any]) -> str | None:
    modes = pooling.get("pooling_mode") or [
        _FLAGS.get(key, key) for key, value in pooling.items() if key.startswith("pooling_mode_") and value
    ]
    [mode, *others] = [modes] if isinstance(modes, str) else list(modes) or ["mean"]
    return None if others else _MODES.get(mode)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
