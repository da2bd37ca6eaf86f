"""The prompts of a generation: our own text files with a version, one per kind of text and one per judgement."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from r2med_ray.errors import ConfigError
from r2med_ray.negatives.generation_settings import KINDS
from r2med_ray.settings.templates import Template, load_template

SHIPPED = Path(str(resources.files("r2med_ray.negatives"))) / "prompts"

PLACES: Mapping[str, tuple[str, ...]] = {
    "hard query": ("query", "passage"),
    **dict.fromkeys(KINDS, ("query", "passage", "examples", "fewest", "most")),
    "paraphrase": ("passage", "fewest", "most"),
    "support": ("query", "passage"),
    "rank": ("query", "first", "second"),
    "answer": ("query", "passage"),
    "agree": ("query", "first", "second"),
}
"""Name of a prompt → the places that it has."""


def load_prompts(folder: str | None = None) -> dict[str, Template]:
    """Read all prompts, by name.

    Args:
        folder: one of the user's own; the shipped one if left out.

    Raises:
        ConfigError: a file is missing, has no version, or lacks a place; names the file.
    """
    root = SHIPPED if folder is None else Path(folder).expanduser()
    if not root.is_dir():
        raise ConfigError(f"prompts {root}: there is no such folder")
    return {name: load_template(root / f"{name.replace(' ', '-')}.txt", places) for name, places in PLACES.items()}
