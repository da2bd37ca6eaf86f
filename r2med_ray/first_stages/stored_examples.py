"""What a model read of one text, kept as an example in the manifest of the artefact that was made of the texts.

The example is no part of a key. See `readings.Listener.example` for what is kept. `r2med show` shows the whole of any
text.
"""

from typing import Any

from r2med_ray.storage.artifact import Artifact

EXAMPLE = "example"
"""The attribute of an artefact that holds the example."""


def stored_example(artifact: Artifact | None) -> list[Any]:
    """Return the example of an artefact; an empty list for one from before examples were kept."""
    return list(artifact.attributes.get(EXAMPLE) or []) if artifact else []
