"""What names an artefact: the fingerprint of everything that it is made from."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from r2med_ray.types import CHARACTERS_PER_REPEAT, Expansion, Query, implied_use

Json: TypeAlias = Any


def canonical_json(value: Json) -> str:
    """Return the one text of a JSON value: with sorted keys, without spaces and without NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as 64 hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fingerprint(parts: Json) -> str:
    """Return 32 hex digits that change when any part changes."""
    return fingerprint_of(canonical_json(parts))


def fingerprint_of(text: str) -> str:
    """Return 32 hex digits that change when a text changes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def fingerprint_queries(queries: Sequence[Query]) -> str:
    """Return the fingerprint of queries: of their ids, texts and expansions, in their order."""
    return fingerprint(
        [[query.query_id, query.text, [_fingerprinted(part) for part in query.expansions]] for query in queries]
    )


def _fingerprinted(part: Expansion) -> list[Json]:
    """Return the values that tell an expansion from others.

    The expansion's use is among these values only if the method doesn't imply it, and its ratio of repetition only if
    it isn't the usual one.
    """
    use = [] if part.use == implied_use(part.method) else [part.use]
    ratio = [] if part.per_repeat == CHARACTERS_PER_REPEAT else [part.per_repeat]
    return [part.text, part.method, part.reasoning, *use, *ratio]


@dataclass(frozen=True)
class ArtifactKey:
    """The kind of an artefact, and everything that the artefact is made from.

    Put in everything that changes the bytes: text digests, model, revision, prompts, max length, dtype, library
    versions. Leave out everything else: hosts, pool sizes, progress bars.

    Args:
        kind: the artefact's kind.
        inputs: what it is made from.
        is_text: whether it is a text or a few, so that one file holds all of it. There are many such artefacts.
    """

    kind: str
    inputs: Mapping[str, Json]
    is_text: bool = field(default=False, compare=False)

    @cached_property
    def digest(self) -> str:
        return fingerprint(self.inputs)

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.digest}"
