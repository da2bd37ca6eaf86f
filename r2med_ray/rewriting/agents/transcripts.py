"""Conversations with a search agent: what it wrote, what it asked for, what it was shown, and how it ended."""

import json
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias, get_args

from r2med_ray.storage.artifacts import Artifact
from r2med_ray.types import DocId, QueryId

FILE = "transcript.json"
MALFORMED = "malformed request"
SHORTENED = "results shortened"

Ended: TypeAlias = Literal["answered", "turn limit", "token limit", "time limit", "context limit"]

REASONS = (MALFORMED, SHORTENED, *(ended for ended in get_args(Ended) if ended != "answered"))
"""The flags that a conversation can give its query, see `Transcript.has`."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """What the model wrote, and what it was shown for it."""

    text: str
    finish_reason: str
    tokens: int
    seconds: float = 0.0
    """How long the model wrote, condensing before the next turn included."""

    request: str | None = None
    found: list[DocId] = field(default_factory=list)
    shown: str | None = None
    """What the model reads before it goes on; None where the conversation has ended."""

    problem: bool = False
    """Whether `shown` says what is wrong with the turn."""

    shortened: bool = False
    """Whether the model was shown less than was found before it wrote this, because all of it was too long."""


@dataclass(slots=True, kw_only=True)
class Transcript:
    """A whole conversation."""

    query_id: QueryId
    max_seconds: float
    """The time limit that it was led under."""

    turns: list[Turn] = field(default_factory=list)
    ended: Ended | None = None

    @property
    def requests(self) -> int:
        """How many turns asked for something, or failed to."""
        return sum(turn.request is not None or turn.problem for turn in self.turns)

    @property
    def tokens(self) -> int:
        """How many tokens the model has written."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def seconds(self) -> float:
        """How long the model has written."""
        return sum(turn.seconds for turn in self.turns)

    def has(self, reason: str) -> bool:
        """Say whether a turn was malformed or shortened, or whether the conversation ended in a certain way."""
        if reason == MALFORMED:
            return any(turn.problem for turn in self.turns)
        return any(turn.shortened for turn in self.turns) if reason == SHORTENED else self.ended == reason


def transcript_files(transcript: Transcript) -> dict[str, bytes]:
    """Return the files of a conversation's artefact: name → content."""
    content = json.dumps(asdict(transcript), ensure_ascii=False, indent=1)
    return {FILE: content.encode("utf-8", "surrogatepass")}


def read_transcript(artifact: Artifact) -> Transcript:
    """Read a stored conversation.

    Raises:
        ArtifactError: it is damaged.
    """
    values = json.loads(artifact.read(FILE).to_pybytes().decode("utf-8", "surrogatepass"))
    return Transcript(**values | {"turns": [Turn(**turn) for turn in values["turns"]]})
