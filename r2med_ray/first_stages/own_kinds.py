"""Kinds of first stages from a user's own modules, which are imported only because a models file names them."""

from pathlib import Path

from r2med_ray.errors import ConfigError
from r2med_ray.first_stages.kinds import FirstStageKind, register
from r2med_ray.settings.own_code import import_named
from r2med_ray.settings.yaml_files import read_list

EXAMPLE = "my_module.MY_KIND"


def load_kinds(path: Path) -> None:
    """Import and register the kinds that a models file lists under `kinds`, e.g. `kinds: [my_module.MY_KIND]`.

    It is called before `load_catalog`, which then knows their sections. Without the key nothing is imported.

    Raises:
        ConfigError: the file can't be read, or a name leads to no `FirstStageKind` or to one that `register`
            refuses.
    """
    for name in read_list(path, "kinds", f"names such as {EXAMPLE}"):
        kind = import_named(name, f"{path}: kinds: {name!r}", "FirstStageKind", _is_kind, EXAMPLE)
        try:
            register(kind)
        except ConfigError as error:
            raise ConfigError(f"{path}: kinds: {name!r}: {error}") from error


def _is_kind(value: object) -> bool:
    return isinstance(value, FirstStageKind)
