"""Paths in a benchmark file: they start at the folder of the file, wherever a command is run."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

FOLDER = "folder"
"""Key in the context of a validation: the folder at which paths start; without it they start where a command runs."""


def rooted(path: str, info: ValidationInfo) -> str:
    """Return a path that starts at the folder of the file. `~` is the user's home, and an absolute path stays."""
    folder = (info.context or {}).get(FOLDER)
    return path if folder is None else str(Path(folder) / Path(path).expanduser())


def _texts(name: str, info: ValidationInfo) -> str:
    return rooted(name, info) if "/" in name or name.endswith(".jsonl") else name


def _lists(name: str, info: ValidationInfo) -> str:
    return rooted(name, info) if Path(name).suffix else name


PathField = Annotated[str, AfterValidator(rooted)]

TextsField = Annotated[str, AfterValidator(_texts)]
"""The name of a generation set; with a slash or the ending `.jsonl`, the path of a file."""

ListsField = Annotated[str, AfterValidator(_lists)]
"""The name of ranked lists; with an ending, the path of a file."""
