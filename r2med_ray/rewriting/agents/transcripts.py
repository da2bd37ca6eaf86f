"""Transcripts of conversations with search agents: texts, requests, results, and how each one ended."""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.keys import Json, fingerprint
from r2med_ray.types import DocId, QueryId

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FILE = "transcript.json"
MALFORMED = "malformed request"
SHORTENED = "results shortened"

Ended: TypeAlias = Literal["answered", "turn limit", "token limit", "time limit", "context limit"]

REASONS = (MALFORMED, SHORTENED, *(ended for ended in get_args(Ended) if ended != "answered"))
"""The flags that a conversation can give to its query; see `Transcript.has`."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """A text of the model, and what the model was shown after it."""

    text: str
    finish_reason: str
    tokens: int
    seconds: float = 0.0
    """How many seconds the model wrote this."""

    condensing_seconds: float = 0.0
    """How many seconds the model condensed what was found, before the next turn."""

    request: str | None = None
    found: list[DocId] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    """Words of each document that was found, before it is cut; empty for a turn from before they were counted."""

    shown: str | None = None
    """The text that the model reads before it goes on; None if the conversation has ended."""

    problem: bool = False
    """Whether `shown` says what is wrong with the turn."""

    shortened: bool = False
    """Whether the model saw only the first words of the results before it wrote this, because all was too long."""


@dataclass(slots=True, kw_only=True)
class Transcript:
    """A whole conversation."""

    query_id: QueryId
    max_seconds: float
    """The time limit of the conversation, in seconds."""

    turns: list[Turn] = field(default_factory=list)
    ended: Ended | None = None

    @property
    def requests(self) -> int:
        """How many turns had a request, or should have had one."""
        return sum(turn.request is not None or turn.problem for turn in self.turns)

    @property
    def tokens(self) -> int:
        """How many tokens the model has written."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def seconds(self) -> float:
        """How many seconds the model has written."""
        return sum(turn.seconds + turn.condensing_seconds for turn in self.turns)

    def under(self, max_seconds: float) -> "Transcript":
        """Return the conversation as it ends under a time limit, which may be below its own.

        So an agent gives the same answers, whether it led a conversation itself or found the conversation of another
        agent that has more time.
        """
        seconds = 0.0
        for count, turn in enumerate(self.turns, start=1):
            seconds += turn.seconds
            went_on = count < len(self.turns) or turn.request is not None or turn.shown is not None
            if went_on and seconds >= max_seconds:
                is_malformed = turn.problem and turn.request is None
                last = replace(
                    turn, request=None, found=[], words=[], shown=None, problem=is_malformed, condensing_seconds=0.0
                )
                turns = [*self.turns[: count - 1], last]
                return replace(self, max_seconds=max_seconds, turns=turns, ended="time limit")
            seconds += turn.condensing_seconds
        return self

    def has(self, reason: str) -> bool:
        """Return whether the conversation has one of `REASONS`: a malformed or a shortened turn, or that end."""
        if reason == MALFORMED:
            return any(turn.problem for turn in self.turns)
        return any(turn.shortened for turn in self.turns) if reason == SHORTENED else self.ended == reason


def asked_inputs(text: str, excluded: Collection[DocId]) -> dict[str, Json]:
    """Return what the key of a conversation says of its query: the text, and the documents that it must not show."""
    left_out = {"excluded": fingerprint(sorted(excluded))} if excluded else {}
    return {"query": fingerprint(text), **left_out}


def transcript_files(transcript: "DataclassInstance") -> dict[str, bytes]:
    """Return the files of the artefact of a conversation of any kind: name → content."""
    content = json.dumps(asdict(transcript), ensure_ascii=False)
    return {FILE: content.encode("utf-8", "surrogatepass")}


def read_transcript(artifact: Artifact) -> Transcript:
    """Read a stored conversation.

    Raises:
        ArtifactError: the artefact is damaged.
    """
    values = read_values(artifact)
    return Transcript(**values | {"turns": [Turn(**turn) for turn in values["turns"]]})


def read_values(artifact: Artifact) -> dict[str, Any]:
    """Read a stored conversation of any kind as plain values.

    Raises:
        ArtifactError: the artefact is damaged.
    """
    values: dict[str, Any] = json.loads(artifact.read(FILE).to_pybytes().decode("utf-8", "surrogatepass"))
    return values
