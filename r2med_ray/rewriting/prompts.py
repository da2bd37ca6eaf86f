"""Prompt files: what a language model is asked, one file per method and family of tasks.

    prompts/<method>/<family>.txt       families: qa, evidence, case; default is for every other

The files are templates with the place `{query}`, and with `{candidates}` for methods that show the model what a first
search found. Both are filled in literally. A folder of the user's own has the same shape. R2MED's repository will do
as well, see `published_prompts`.
"""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from r2med_ray.errors import ConfigError
from r2med_ray.rewriting.published_prompts import PUBLISHED_FILE, published_prompt
from r2med_ray.settings.registry import nearest
from r2med_ray.settings.templates import Template, load_template

SHIPPED = Path(str(resources.files("r2med_ray.rewriting"))) / "prompts"
DEFAULT = "default"


class PromptTask(NamedTuple):
    """What a prompt is chosen by."""

    names: tuple[str, ...]
    """The task's name, and the older ones that R2MED's tables use."""

    family: str = DEFAULT
    """What a relevant document of the task is: `qa`, `evidence` or `case`."""


def load_prompt(method: str, task: PromptTask, places: Sequence[str], folder: str | Path | None = None) -> Template:
    """Return the prompt of a method for a task.

    Args:
        method: its name, with dashes.
        task: chooses the file.
        places: what the prompt must have a place for, see `Method.places`.
        folder: holds prompts of a user's own, or R2MED's repository; the shipped ones where it is left out.

    Raises:
        ConfigError: there is no such prompt, or its version or a place is missing or unknown; names file and line.
    """
    root = _root(folder)
    if (root / PUBLISHED_FILE).is_file():
        return published_prompt(root, method, task.names, places)
    return load_template(_find(root, method, task.family), places)


def load_shared_prompt(name: str, places: Sequence[str], folder: str | Path | None = None) -> Template:
    """Return a prompt that is the same for all tasks, as those of search agents are: `<name>/default.txt`.

    Raises:
        ConfigError: as of `load_prompt`.
    """
    return load_template(_root(folder) / name / f"{DEFAULT}.txt", places)


def numbered(passages: Sequence[str], words: int) -> str:
    """Return passages as R2MED shows them to LameR: lines `[i]. passage`, i from 1, each cut to its first words."""
    return "".join(f"\n[{i}]. {' '.join(passage.split()[:words])}" for i, passage in enumerate(passages, start=1))


def _root(folder: str | Path | None) -> Path:
    return SHIPPED if folder is None else Path(folder).expanduser()


def _find(root: Path, method: str, family: str) -> Path:
    for path in (root / method / f"{family}.txt", root / method / f"{DEFAULT}.txt"):
        if path.is_file():
            return path
    known = sorted(path.name for path in root.glob("*") if path.is_dir())
    if method in known:
        raise ConfigError(f"{root / method}: there is neither {family}.txt nor {DEFAULT}.txt")
    raise ConfigError(f"{root}: no prompts for {method!r}.{nearest(method, known)} Known: {', '.join(known)}")
