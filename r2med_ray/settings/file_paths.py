"""Paths in a benchmark file: they start at the folder of the file, wherever a command is run."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

FOLDER = "folder"
"""Key in the context of a validation: the folder at which paths start; without it they start where a command runs."""


def rooted(path: str, info: ValidationInfo) -> str:
    """Return a path that starts at the folder of the file. `~` is the user's home, and an absolute path stays."""
    folder = (info.context or {}).get(FOLDER)
    if folder is None:
        return path
    try:
        return str(Path(folder) / Path(path).expanduser())
    except RuntimeError as error:  # `~nobody`
        raise ValueError(f"should be a path, got {path!r}: no such user's home is known") from error


def is_path_of_texts(name: str) -> bool:
    """Return whether generated texts are called by the path of a file, and not by the name of a generation set."""
    return "/" in name or name.endswith(".jsonl")


def is_path_of_lists(name: str) -> bool:
    """Return whether ranked lists are called by the path of a file, and not by a name."""
    return bool(Path(name).suffix)


def is_path_of_prompt(name: str) -> bool:
    """Return whether a reranker's prompt is called by the path of a file, and not by the name of a shipped one."""
    return "/" in name or bool(Path(name).suffix)


def _texts(name: str, info: ValidationInfo) -> str:
    return rooted(name, info) if is_path_of_texts(name) else name


def _lists(name: str, info: ValidationInfo) -> str:
    return rooted(name, info) if is_path_of_lists(name) else name


PathField = Annotated[str, AfterValidator(rooted)]

TextsField = Annotated[str, AfterValidator(_texts)]
"""The name of a generation set; with a slash or the ending `.jsonl`, the path of a file."""

ListsField = Annotated[str, AfterValidator(_lists)]
"""The name of ranked lists; with an ending, the path of a file."""
