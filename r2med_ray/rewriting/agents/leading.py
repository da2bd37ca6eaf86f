"""Leads conversations with a search agent to their end, turn by turn.

    reason → request → search → (condense) → reason → ... → answer

All conversations take each turn together, so that a model gets one batch per turn. The time of a conversation is the
sum of the times of its own texts, each counted from its request on. Waiting for other conversations doesn't count.
"""

from collections.abc import Sequence
from typing import NamedTuple

from r2med_ray.chat import ChatPrompt, Completion, LanguageModel, ending_of
from r2med_ray.demands import Ask, Keep, Steps
from r2med_ray.rewriting.agents.conversations import Conversations, brief, chat_prompt, message
from r2med_ray.rewriting.agents.requests import Requests
from r2med_ray.rewriting.agents.transcripts import Transcript, transcript_files
from r2med_ray.settings.rewriter import SearchAgentConfig
from r2med_ray.settings.templates import Template
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Query


class _Conversation(NamedTuple):
    query: Query
    key: ArtifactKey
    transcript: Transcript


class Leader:
    """Leads conversations to their end.

    Args:
        model: the language model.
        talk: how the model and its search tool talk.
        start: the first message, with the place `query`.
        requests: carries out the model's requests.
        limits: when a conversation has to end.
        seed: the seed of every text.
    """

    def __init__(
        self,
        model: LanguageModel,
        talk: Conversations,
        start: Template,
        requests: Requests,
        limits: SearchAgentConfig,
        seed: int,
    ) -> None:
        self._model = model
        self._talk = talk
        self._start = start
        self._requests = requests
        self._limits = limits
        self._seed = seed

    def lead(self, asked: Sequence[tuple[Query, ArtifactKey]]) -> Steps[list[Transcript]]:
        """Return one conversation per query, in their order. Each is kept under its key as soon as it has ended."""
        limit = self._limits.max_seconds
        led = [
            _Conversation(query, key, Transcript(query_id=query.query_id, max_seconds=limit)) for query, key in asked
        ]
        active = led
        while active:
            prompts = tuple(self._prompt(query, transcript) for query, _, transcript in active)
            completions = yield Ask(model=self._model, prompts=prompts)
            for (_, _, transcript), completion in zip(active, completions, strict=True):
                if completion is None:
                    transcript.ended = "context limit"
                else:
                    self._note(transcript, completion)
            yield from self._requests.carry_out([(query, item) for query, _, item in active if item.ended is None])
            ended = tuple(Keep(key=key, files=transcript_files(item)) for _, key, item in active if item.ended)
            if ended:
                yield ended
            active = [item for item in active if item.transcript.ended is None]
        return [transcript for _, _, transcript in led]

    def _note(self, transcript: Transcript, completion: Completion) -> None:
        """Add the model's turn to the transcript, and note if the conversation has ended."""
        turn, asked = self._talk.next_turn(transcript.turns, completion)
        out_of_turns = transcript.requests >= self._limits.max_turns
        transcript.turns.append(turn)
        is_whole = ending_of(turn.finish_reason) == "whole"
        turn.problem = not asked and is_whole and not self._talk.answer(transcript).text
        if not asked and not turn.problem:
            transcript.ended = "answered"
        elif turn.shortened:
            transcript.ended = "context limit"
        elif out_of_turns:
            transcript.ended = "turn limit"
        elif transcript.tokens >= self._limits.max_tokens:
            transcript.ended = "token limit"
        elif transcript.seconds >= transcript.max_seconds:
            transcript.ended = "time limit"
        elif asked:
            turn.text, turn.request = asked

    def _prompt(self, query: Query, transcript: Transcript) -> ChatPrompt:
        first = message("user", self._start.fill(query=query.text))
        turns = transcript.turns
        return chat_prompt(
            f"query {query.query_id!r}, turn {len(turns) + 1}",
            [first, *self._talk.messages(turns)],
            [first, *self._talk.messages(brief(turns))],
            seed=self._seed,
            stop=(self._talk.agent.request_end,),
        )
