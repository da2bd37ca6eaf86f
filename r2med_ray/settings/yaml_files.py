"""Reads YAML files, and refuses a key that comes twice, of which YAML's own reader would take the last."""

import itertools
import math
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from r2med_ray.errors import ConfigError

MERGE = "tag:yaml.org,2002:merge"

MOST_VALUES = 1_000_000
"""Values that a file may have once each alias (`*a`) stands for a copy of what it names. A few lines of aliases of
aliases would have more than a computer can print."""


SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's reader, which takes a third of the time, wherever PyYAML was built with it."""


TOO_DEEP = "its values are nested too deeply"
_OF_LIBYAML = "exceeded maximum nesting depth"
"""What libyaml says of it, where Python's reader has a RecursionError."""


class UniqueKeys(SafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader without its silence about repeated keys, and without aliases that grow without end."""

    def get_single_node(self) -> yaml.Node | None:
        """Return the only document.

        Raises:
            yaml.composer.ComposerError: it has more than `MOST_VALUES` values, or an alias that holds itself.
        """
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _num_values(node, {}) > MOST_VALUES:
            raise yaml.composer.ComposerError(
                None, None, f"its aliases stand for more than {MOST_VALUES} values", node.start_mark
            )
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping.

        Raises:
            yaml.constructor.ConstructorError: a key comes twice.
        """
        known: set[Any] = set()
        for key_node, _ in node.value:
            key = None if key_node.tag == MERGE else self.construct_object(key_node, deep=True)
            if key is not None and not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(
                    "in the keys", node.start_mark, "a key is a list or a mapping", key_node.start_mark
                )
            if isinstance(key, str) and key in known:
                raise yaml.constructor.ConstructorError(
                    "in the keys", node.start_mark, f"{key!r} comes twice", key_node.start_mark
                )
            known.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _num_values(node: yaml.Node, known: dict[int, float]) -> float:
    """Return how many values a node has with each alias as a copy; infinitely many if it holds itself."""
    if id(node) not in known:
        known[id(node)] = math.inf  # until it is known
        inside = node.value if isinstance(node, yaml.CollectionNode) else []
        nodes = itertools.chain.from_iterable(each if isinstance(each, tuple) else (each,) for each in inside)
        known[id(node)] = 1 + sum(_num_values(each, known) for each in nodes)
    return known[id(node)]


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
    except (yaml.YAMLError, ValueError) as error:  # a ValueError for bytes, dates and numbers that can't be
        raise ConfigError(f"{path}: {TOO_DEEP if _OF_LIBYAML in str(error) else error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: {TOO_DEEP}") from error


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
