"""Prompt texts in files: a version in the first line, then a text with places in braces.

    version: 3
    Question: {query}

A place is filled literally: braces in the value stay as they are. `{{` and `}}` in the file mean braces.
"""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from r2med_ray.errors import ConfigError
from r2med_ray.settings.registry import nearest

_VERSION = re.compile(r"version: *(\S+)")
_PLACE = re.compile(r"\{\{|\}\}|\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A prompt with places."""

    version: str
    text: str

    @property
    def digest(self) -> str:
        """The digest that names the prompt in an artefact's key."""
        return hashlib.sha256(f"{self.version}\0{self.text}".encode()).hexdigest()

    def fill(self, **values: str) -> str:
        """Return the text with a value in every place."""
        braces = {"{{": "{", "}}": "}"}
        return _PLACE.sub(lambda found: braces.get(found[0]) or values[found[1]], self.text)


def places_in(text: str) -> list[str]:
    """Return the names of a text's places, as they come."""
    return [match[1] for match in _PLACE.finditer(text) if match[1]]


def known_places_in(text: str, places: Collection[str], where: str) -> list[str]:
    """Return the names of a text's places, as they come.

    Raises:
        ConfigError: one is none of `places`; names it and `where`.
    """
    found = places_in(text)
    for place in found:
        if place not in places:
            known = ", ".join(f"{{{name}}}" for name in places)
            raise ConfigError(f"{where}: unknown place {place!r}.{nearest(place, places)} Known: {known}")
    return found


def load_template(path: Path, places: Collection[str]) -> Template:
    """Read a prompt file, which must have each of `places` at least once, and no other place.

    Raises:
        ConfigError: the file can't be read, has no version, or its places are wrong; names file and line.
    """
    try:
        first, _, text = path.read_text(encoding="utf-8").partition("\n")
    except OSError as error:
        raise ConfigError(f"prompt {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"prompt {path}: not UTF-8: {error}") from error
    version = _VERSION.fullmatch(first.strip())
    if version is None:
        raise ConfigError(f"{path}:1: expected `version: NAME` before the prompt, got {first!r}")
    lines = enumerate(text.split("\n"), start=2)
    found = {place for number, line in lines for place in known_places_in(line, places, f"{path}:{number}")}
    if missing := [place for place in places if place not in found]:
        raise ConfigError(f"{path}: the prompt has no place {{{missing[0]}}}")
    return Template(version=version[1], text=text.strip("\n"))
