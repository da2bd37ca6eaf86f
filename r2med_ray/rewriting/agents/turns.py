"""Turns that all conversations with an agent take together, until each one has ended.

    ask → note → carry out → keep what has ended → ask → ...

A model gets one batch per turn, and a search all requests of the turn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from r2med_ray.chat import ChatPrompt, Completion, LanguageModel
from r2med_ray.demands import Ask, Keep, Recall, Steps
from r2med_ray.rewriting.agents.tool_transcripts import ToolTranscript
from r2med_ray.rewriting.agents.transcripts import Transcript, transcript_files
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Query, QueryId

T = TypeVar("T", Transcript, ToolTranscript)


class _Conversation(NamedTuple, Generic[T]):
    query: Query
    key: ArtifactKey
    transcript: T


class TurnByTurn(ABC, Generic[T]):
    """Leads conversations of one kind to their end.

    Args:
        model: the language model.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def transcripts(
        self,
        queries: Sequence[Query],
        keys: Mapping[QueryId, ArtifactKey],
        recalled: Callable[[Artifact], T | None],
    ) -> Steps[dict[QueryId, T]]:
        """Return the conversation about each query. Those that are stored are not led again.

        Args:
            queries: the queries. Those with the same key share one conversation.
            keys: query id → the key of its conversation.
            recalled: reads a stored conversation; None if it doesn't count as stored.
        """
        stored = yield Recall(keys=tuple(keys.values()))
        known = {
            key.digest: transcript
            for key, artifact in zip(keys.values(), stored, strict=True)
            if artifact is not None and (transcript := recalled(artifact)) is not None
        }
        missing = {
            key.digest: _Conversation(query, key, self._begun(query))
            for query in queries
            if (key := keys[query.query_id]).digest not in known
        }
        led = yield from self._lead(list(missing.values()))
        known |= zip(missing, led, strict=True)
        return {query_id: known[key.digest] for query_id, key in keys.items()}

    def _lead(self, led: Sequence[_Conversation[T]]) -> Steps[list[T]]:
        """Return the conversations, in their order. Each is kept under its key as soon as it has ended."""
        active = led
        while active:
            prompts = tuple(self._prompt(query, transcript) for query, _, transcript in active)
            completions = yield Ask(model=self._model, prompts=prompts)
            for (_, _, transcript), completion in zip(active, completions, strict=True):
                if completion is None:
                    transcript.ended = "context limit"
                else:
                    self._note(transcript, completion)
            yield from self._carry_out([(query, item) for query, _, item in active if item.ended is None])
            ended = tuple(Keep(key=key, files=transcript_files(item)) for _, key, item in active if item.ended)
            if ended:
                yield ended
            active = [item for item in active if item.transcript.ended is None]
        return [transcript for _, _, transcript in led]

    @abstractmethod
    def _begun(self, query: Query) -> T:
        """Return a conversation about a query before its first turn."""

    @abstractmethod
    def _prompt(self, query: Query, transcript: T) -> ChatPrompt:
        """Return the prompt of the next turn."""

    @abstractmethod
    def _note(self, transcript: T, completion: Completion) -> None:
        """Add the model's turn to the transcript, and note if the conversation has ended."""

    @abstractmethod
    def _carry_out(self, asked: Sequence[tuple[Query, T]]) -> Steps[None]:
        """Carry out what the last turns of conversations ask for, which have not ended."""
