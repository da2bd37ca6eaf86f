"""Prompt files: the prompts for language models, one file per method and family of tasks.

    prompts/<method>/<family>.txt       families: qa, evidence, case; default is for all other tasks

The files are templates with the place `{query}`. Methods that show the model the results of a first search also have
the place `{candidates}`. Both places are filled in literally. A folder of the user's own has the same shape. R2MED's
repository can be used as well, see `published_prompts`.
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
    """The values by which a prompt is chosen."""

    names: tuple[str, ...]
    """The task's name, and the older ones that R2MED's tables use."""

    family: str = DEFAULT
    """What a relevant document of the task is: `qa`, `evidence` or `case`."""


def load_prompt(method: str, task: PromptTask, places: Sequence[str], folder: str | Path | None = None) -> Template:
    """Return the prompt of a method for a task.

    Args:
        method: name of the method, with dashes.
        task: chooses the file.
        places: the places that the prompt must have, see `Method.places`.
        folder: a folder with prompts of the user's own, or R2MED's repository. If left out, the shipped prompts are
            used.

    Raises:
        ConfigError: there is no such prompt, its version is missing, or a place is missing or unknown; names file and
            line.
    """
    root = _root(folder)
    if (root / PUBLISHED_FILE).is_file():
        return published_prompt(root, method, task.names, places)
    return load_template(_find(root, method, task.family), places)


def load_shared_prompt(name: str, places: Sequence[str], folder: str | Path | None = None) -> Template:
    """Return a prompt that is the same for all tasks: `<name>/default.txt`. Search agents have such prompts.

    Raises:
        ConfigError: see `load_prompt`.
    """
    return load_template(_root(folder) / name / f"{DEFAULT}.txt", places)


def numbered(passages: Sequence[str], words: int) -> str:
    """Return passages in R2MED's form for LameR: lines `[i]. passage`, i from 1. Each is cut to its first words."""
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
