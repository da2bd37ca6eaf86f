"""What a model read of one text, kept as an example in the manifest of the artefact that was made of the texts.

The example is no part of a key. It is of the first query or document, and of the first text with each further prompt,
such as a generated text that is read like a document. Texts of collections belong to others, so of each text only the
first characters are kept: enough to see what stands before it. `r2med show` shows the whole of any text.
"""

from typing import Any

from r2med_ray.readings import Listener, Reading, TextRead
from r2med_ray.storage.artifacts import Artifact
from r2med_ray.storage.keys import Json

EXAMPLE = "example"
"""The attribute of an artefact that holds the example."""

CHARACTERS = 120
"""Characters of a text that are kept."""

MOST = 4
"""Readings that are kept: a query, and generated texts with each of their prompts."""


def example_of(heard: Listener) -> list[Json] | None:
    """Return the first reading of each kind as plain values; None if nothing was told.

    Args:
        heard: has the first reading of each batch.
    """
    kinds: dict[object, Reading] = {}
    for reading in heard.readings:
        kinds.setdefault((reading.side, *(part.prompt for part in reading.parts)), reading)
    return [values_of(reading) for reading in [*kinds.values()][:MOST]] or None


def values_of(reading: Reading) -> dict[str, Any]:
    """Return a reading as plain values: counts in place of tokens, and the beginning of each text."""
    return {
        "tokens": None if reading.tokens is None else len(reading.tokens),
        "limit": reading.limit,
        "remarks": list(reading.remarks),
        "parts": [_part(part) for part in reading.parts],
    }


def stored_example(artifact: Artifact | None) -> list[Any]:
    """Return the example of an artefact; an empty list for one from before examples were kept."""
    return list(artifact.attributes.get(EXAMPLE) or []) if artifact else []


def beginning(text: str, most: int = CHARACTERS) -> str:
    """Return what is kept of a text."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def _part(part: TextRead) -> dict[str, Any]:
    return {
        "side": part.side,
        "prompt": part.prompt,
        "text": beginning(part.text),
        "after": part.after,
        "lost": part.lost,
    }
