"""Reads YAML files, and refuses a key that comes twice, of which YAML's own reader would take the last."""

from pathlib import Path
from typing import Any

import yaml

from r2med_ray.errors import ConfigError

MERGE = "tag:yaml.org,2002:merge"


class UniqueKeys(yaml.SafeLoader):
    """PyYAML's safe loader without its silence about repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping.

        Raises:
            yaml.constructor.ConstructorError: a key comes twice.
        """
        known: set[Any] = set()
        for key_node, _ in node.value:
            key = None if key_node.tag == MERGE else self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in known:
                raise yaml.constructor.ConstructorError(
                    "in the keys", node.start_mark, f"{key!r} comes twice", key_node.start_mark
                )
            known.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Return what a YAML file holds.

    Raises:
        ConfigError: the file can't be read, is no YAML, or has a key twice; names the file and the line.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            return yaml.load(stream, UniqueKeys)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def read_list(path: Path, key: str, of: str) -> list[Any]:
    """Return the list that a YAML file has under a key; an empty list if the file doesn't have the key.

    Args:
        path: the file. Its other keys are not read.
        key: the key of the list.
        of: what the list should hold, for errors.

    Raises:
        ConfigError: see `read_yaml`, or the value is no list.
    """
    values = read_yaml(path)
    found = values.get(key, []) if isinstance(values, dict) else []
    if not isinstance(found, list):
        raise ConfigError(f"{path}: {key} must be a list of {of}, got {found!r}")
    return found
