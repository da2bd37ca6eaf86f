"""Imports what a user's file names by module and name. Nothing is imported that no file names."""

import importlib
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from r2med_ray.errors import ConfigError, OwnCodeError, R2MedError
from r2med_ray.settings.registry import nearest

DOTTED_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)+"
"""The pattern of a module and a name in it, e.g. `my_module.MyEncoder`."""


def import_named(name: object, where: str, what: str, is_right: Callable[[Any], bool], example: str) -> Any:
    """Return what a dotted name leads to.

    Args:
        name: module and name, e.g. `my_module.MyMethod`.
        where: file, key and value, for errors.
        what: the kind of thing that is expected, e.g. "class".
        is_right: says whether a value is of that kind.
        example: a name as it should be.

    Raises:
        ConfigError: the name is no dotted one, the module can't be imported, or it has nothing of that kind under the
            name; gives the nearest that it has.
    """
    module_name, _, attribute = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    parts = [*module_name.split("."), attribute]
    if not all(part.isidentifier() for part in parts):
        raise ConfigError(f"{where}: expected a module and a name in it, such as {example}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{where}: there is no Python module {error.name!r}; install it, or put its folder on PYTHONPATH"
        ) from error
    except ImportError as error:
        raise ConfigError(f"{where}: module {module_name!r} can't be imported: {error}") from error
    own = {key: value for key, value in vars(module).items() if not key.startswith("_")}
    known = [key for key, value in own.items() if is_right(value) and not _is_imported(value, module_name)]
    found = vars(module).get(attribute)
    if not is_right(found):
        raise ConfigError(
            f"{where}: module {module_name!r} has no {what} {attribute!r}.{nearest(attribute, known)} "
            f"It has {', '.join(known) or 'none'}"
        )
    return found


@contextmanager
def own_code(where: str) -> Iterator[None]:
    """Call a user's code. Whatever the code raises becomes an error that says which code it was.

    Args:
        where: row, class and method, or the function.

    Raises:
        OwnCodeError: the code raised something; gives the error with its file and line.
    """
    try:
        yield
    except R2MedError:
        raise
    except Exception as error:  # the code isn't ours, so any error may come
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise OwnCodeError(
            f"{where} raised {type(error).__name__}: {error} ({last.filename}:{last.lineno})"
        ) from error


def _is_imported(value: Any, module_name: str) -> bool:
    """Say whether a class or function comes from another module."""
    return (inspect.isclass(value) or inspect.isroutine(value)) and value.__module__ != module_name
