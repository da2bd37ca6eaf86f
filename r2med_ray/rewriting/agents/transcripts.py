"""Conversations with a search agent: what it wrote, what it asked for, what it was shown, and how it ended."""

import json
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias, get_args

from r2med_ray.storage.artifacts import Artifact, ArtifactKey, ArtifactStore
from r2med_ray.types import DocId, QueryId

FILE = "transcript.json"
MALFORMED = "malformed request"
SHORTENED = "results shortened"

Ended: TypeAlias = Literal["answered", "turn limit", "token limit", "time limit", "context limit"]

REASONS = (MALFORMED, SHORTENED, *(ended for ended in get_args(Ended) if ended != "answered"))
"""Why a query with a conversation is flagged, see `Transcript.has`."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """What the model wrote, and what it was shown for it."""

    text: str
    finish_reason: str
    tokens: int
    seconds: float = 0.0
    """How long the model wrote, what was condensed before the next turn included."""

    request: str | None = None
    found: list[DocId] = field(default_factory=list)
    shown: str | None = None
    """What the model reads before it goes on; None where it has ended."""

    problem: bool = False
    """Whether `shown` says what is wrong with the turn."""

    shortened: bool = False
    """Whether the model read less than was found before it wrote this, for all of it was too long."""


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
        """Turns that asked for something, or failed to."""
        return sum(turn.request is not None or turn.problem for turn in self.turns)

    @property
    def tokens(self) -> int:
        """Tokens that the model has written."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def seconds(self) -> float:
        """How long the model has written."""
        return sum(turn.seconds for turn in self.turns)

    def has(self, reason: str) -> bool:
        """Say whether a turn was malformed or shortened, or the conversation ended in a certain way."""
        if reason == MALFORMED:
            return any(turn.problem for turn in self.turns)
        return any(turn.shortened for turn in self.turns) if reason == SHORTENED else self.ended == reason


def keep_transcript(store: ArtifactStore, key: ArtifactKey, transcript: Transcript) -> None:
    """Store a conversation that has ended."""
    content = json.dumps(asdict(transcript), ensure_ascii=False, indent=1)
    with store.create(key) as writer:
        writer.write(FILE, content.encode("utf-8", "surrogatepass"))


def read_transcript(artifact: Artifact) -> Transcript:
    """Read a stored conversation.

    Raises:
        ArtifactError: it is damaged.
    """
    values = json.loads(artifact.read(FILE).to_pybytes().decode("utf-8", "surrogatepass"))
    return Transcript(**values | {"turns": [Turn(**turn) for turn in values["turns"]]})
