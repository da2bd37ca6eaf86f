"""Transcripts of conversations whose answer is a ranking: calls of tools, what was shown, and the ids in the end."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from r2med_ray.rewriting.agents.transcripts import MALFORMED, SHORTENED, Ended, read_values
from r2med_ray.storage.artifact import Artifact
from r2med_ray.types import DocId, QueryId

INVENTED = "invented ids"
REPEATED = "repeated ids"


@dataclass(slots=True, kw_only=True)
class Call:
    """A call of a tool, and what the model was shown for it."""

    name: str
    arguments: str
    query: str | None = None
    """What was searched for; None if nothing was."""

    top_k: int = 0
    found: list[DocId] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    """Words of each document that was found, before it is cut."""

    shown: str = ""
    problem: bool = False
    """Whether `shown` says what is wrong with the call."""


@dataclass(slots=True, kw_only=True)
class ToolTurn:
    """What a model wrote and called in one turn."""

    text: str
    finish_reason: str
    tokens: int
    seconds: float = 0.0
    calls: list[Call] = field(default_factory=list)
    shown: str = ""
    """What the model is told if it called nothing, or has to end."""

    shortened: bool = False
    """Whether the model saw only the first words of the results before it wrote this, because all was too long."""

    @property
    def problem(self) -> bool:
        """Whether something is wrong with it."""
        return not self.calls or any(call.problem for call in self.calls)


@dataclass(slots=True, kw_only=True)
class ToolTranscript:
    """A whole conversation."""

    query_id: QueryId
    turns: list[ToolTurn] = field(default_factory=list)
    ended: Ended | None = None
    ranked: list[DocId] = field(default_factory=list)
    """The model's answer, best first; empty if a limit ended the conversation."""

    invented: int = 0
    """Ids of answers that were dropped because the conversation has shown no such passage."""

    repeated: int = 0
    """Ids of answers that were dropped because they stood there before."""

    @property
    def searches(self) -> list[Call]:
        """The calls that searched, in their order."""
        return [call for turn in self.turns for call in turn.calls if call.query is not None]

    @property
    def shown(self) -> list[DocId]:
        """The documents that were shown, in the order in which each was shown first: `p1`, `p2`, ..."""
        return list(dict.fromkeys(doc_id for call in self.searches for doc_id in call.found))

    @property
    def tokens(self) -> int:
        return sum(turn.tokens for turn in self.turns)

    @property
    def seconds(self) -> float:
        return sum(turn.seconds for turn in self.turns)

    @property
    def lists(self) -> tuple[tuple[DocId, ...], ...]:
        """What the ranking is made of: the answer, or else what each search found; empty if nothing was found."""
        if self.ended == "answered":
            return (tuple(self.ranked),)
        return tuple(tuple(call.found) for call in self.searches if call.found)

    def flags(self) -> Iterator[str]:
        """Yield what is to be told of it: its end unless it was answered, and what was wrong on the way."""
        if self.ended is not None and self.ended != "answered":
            yield self.ended
        noted = {
            MALFORMED: any(turn.problem for turn in self.turns),
            SHORTENED: any(turn.shortened for turn in self.turns),
            INVENTED: self.invented > 0,
            REPEATED: self.repeated > 0,
        }
        yield from (flag for flag, is_true in noted.items() if is_true)


def read_tool_transcript(artifact: Artifact) -> ToolTranscript:
    """Read a stored conversation.

    Raises:
        ArtifactError: the artefact is damaged.
    """
    values = read_values(artifact)
    turns = [ToolTurn(**turn | {"calls": [Call(**call) for call in turn["calls"]]}) for turn in values["turns"]]
    return ToolTranscript(**values | {"turns": turns})
