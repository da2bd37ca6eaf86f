"""Kinds of first stages from a user's own modules, which are imported only because a models file names them."""

import importlib
import re
from pathlib import Path

import yaml

from r2med_ray.errors import ConfigError
from r2med_ray.settings.registry import nearest
from r2med_ray.stages.kinds import StageKind, register

EXAMPLE = "my_module.MY_KIND"
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


def load_kinds(path: Path) -> None:
    """Import and register the kinds that a models file lists under `kinds`, e.g. `kinds: [my_module.MY_KIND]`.

    It is called before `load_catalog`, which then knows their sections. Without the key nothing is imported.

    Raises:
        ConfigError: the file can't be read, or a name leads to no `StageKind`, or to one that `register` refuses.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from error
    named = values.get("kinds", []) if isinstance(values, dict) else []
    if not isinstance(named, list):
        raise ConfigError(f"{path}: kinds must be a list of names such as {EXAMPLE}, got {named!r}")
    for name in named:
        kind = _imported(name, f"{path}: kinds: {name!r}")
        try:
            register(kind)
        except ConfigError as error:
            raise ConfigError(f"{path}: kinds: {name!r}: {error}") from error


def _imported(name: object, where: str) -> StageKind:
    if not isinstance(name, str) or not _DOTTED.fullmatch(name):
        raise ConfigError(f"{where}: expected a module and a name in it, such as {EXAMPLE}")
    module_name, _, attribute = name.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{where}: there is no Python module {error.name!r}; install it, or put its folder on PYTHONPATH"
        ) from error
    except ImportError as error:
        raise ConfigError(f"{where}: module {module_name!r} can't be imported: {error}") from error
    kinds = [key for key, value in vars(module).items() if isinstance(value, StageKind)]
    kind = getattr(module, attribute, None)
    if not isinstance(kind, StageKind):
        raise ConfigError(
            f"{where}: module {module_name!r} has no StageKind {attribute!r}.{nearest(attribute, kinds)} "
            f"It has {', '.join(kinds) or 'none'}"
        )
    return kind
