"""Turns the values of a YAML file into rows. An error names the file, the row, and the nearest right name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.row import Row
from r2med_ray.models.catalog.sources import is_folder
from r2med_ray.settings.file_paths import is_path_of_prompt
from r2med_ray.settings.registry import nearest
from r2med_ray.settings.row_problems import row_problem

PLACES = ("model", "document_model", "tokenizer")
"""Keys of rows that may name a folder. The folder is relative to the file."""

SETS = ("instructions", "document_instructions")
"""Keys of rows that may name a set of instructions."""

R = TypeVar("R", bound=Row)


def parse_row(kind: type[R], given: Any, sets: Mapping[str, Any], path: Path) -> R:
    """Return the row that a file describes.

    Args:
        kind: class of the row.
        given: the values in the file; a mapping if nothing is wrong.
        sets: sets of instructions by name.
        path: the file, for messages and relative folders.

    Raises:
        ConfigError: a key or value is wrong.
    """
    values = _with_folders(_with_instructions(given, sets, path), path) if isinstance(given, dict) else given
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        name = values.get("name") if isinstance(values, dict) else values
        problems = "\n".join(f"  {name}: {row_problem(problem, kind)}" for problem in error.errors())
        raise ConfigError(f"{path}:\n{problems}") from error


def require_known(name: str, known: Mapping[str, Any], kind: str, path: Path) -> None:
    """Refuse a name that is none of the known ones.

    Raises:
        ConfigError: the name is not known; gives the nearest known name.
    """
    if name not in known:
        raise ConfigError(f"{path}: unknown {kind} {name!r}.{nearest(name, known)} Known: {', '.join(known)}")


def _with_instructions(values: dict[str, Any], sets: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Replace the names of instruction sets by the sets themselves."""
    named = {key: values[key] for key in SETS if isinstance(values.get(key), str)}
    for name in named.values():
        require_known(name, sets, "instructions", path)
    return values | {key: sets[name] for key, name in named.items()}


def _with_folders(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """Make the paths of folders and of a reranker's prompt file absolute."""
    folders = {key: values[key] for key in PLACES if is_folder(str(values.get(key, "")))}
    prompt = values.get("prompt")
    if isinstance(prompt, str) and is_path_of_prompt(prompt):
        folders["prompt"] = prompt
    return values | {key: str((path.parent / Path(f).expanduser()).absolute()) for key, f in folders.items()}
