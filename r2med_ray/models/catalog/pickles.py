"""Refuses weights that are pickles: whoever wrote a pickle decides what code runs when it is read.

safetensors holds tensors and nothing else. A row that says `allow_pickle: true` has its pickles read too, with
torch's `weights_only`, which takes tensors and refuses all else.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from r2med_ray.errors import ConfigError

SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
"""Endings of the files that torch reads as pickles."""

_OF_TRAINING = ("training_args", "optimizer", "scheduler", "scaler", "rng_state", "random_states")
"""Beginnings of the names of files that a training leaves beside the weights, and that nothing here reads."""


def require_no_pickles(owner: str, folder: Path) -> None:
    """Check that each folder of a checkpoint that holds weights holds them as safetensors.

    Args:
        owner: the row that the checkpoint is used by, e.g. "model 'my-encoder'".
        folder: the checkpoint. Beside it, the folders of its modules for sentence-transformers are looked into.

    Raises:
        ConfigError: weights are only in a pickle; names the file, and says what to set.
    """
    for place in _folders(folder):
        files = [path for path in sorted(place.iterdir()) if path.is_file()]
        pickles = [path for path in files if path.suffix in SUFFIXES and not path.name.startswith(_OF_TRAINING)]
        if pickles and not any(path.suffix == ".safetensors" for path in files):
            raise refused_pickle(owner, pickles[0])


def refused_pickle(owner: str, file: object) -> ConfigError:
    """Return the error about a pickle that would have to be read."""
    return ConfigError(
        f"{owner}: its weights are in {file}, a pickle, which may run code when it is read; expected safetensors. "
        f"Convert the file, or, if you trust whoever published it, set `allow_pickle: true` in the row"
    )


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folder of a checkpoint, and those of its modules and of the routes of a module."""
    modules = _json(folder / "modules.json", [])
    paths = [str(module.get("path", "")) for module in modules if isinstance(module, dict)]
    for place in dict.fromkeys([folder, *(folder / path for path in paths)]):
        if place.is_dir():
            yield place
        router = _json(place / "router_config.json", {})
        routes = router.get("types", {}) if isinstance(router, dict) else {}
        yield from (place / route for route in routes if (place / route).is_dir())


def _json(path: Path, default: Any) -> Any:
    """Return a file's values, or `default` if it is not there or no JSON: whoever loads the checkpoint reports it."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return default
