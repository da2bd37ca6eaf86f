"""Leads conversations with a search agent to their end, turn by turn.

    reason → request → search → (condense) → reason → ... → answer

The time of a conversation is the sum of the times of its own texts, each counted from its request on. Waiting for
other conversations doesn't count.
"""

from collections.abc import Sequence

from r2med_ray.chat import ChatPrompt, Completion, LanguageModel, ending_of
from r2med_ray.demands import Steps
from r2med_ray.rewriting.agents.conversations import Conversations, brief, chat_prompt, message
from r2med_ray.rewriting.agents.requests import Requests
from r2med_ray.rewriting.agents.transcripts import Transcript
from r2med_ray.rewriting.agents.turns import TurnByTurn
from r2med_ray.settings.rewriter import SearchAgentConfig
from r2med_ray.settings.templates import Template
from r2med_ray.types import Query


class Leader(TurnByTurn[Transcript]):
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
        super().__init__(model)
        self._talk = talk
        self._start = start
        self._requests = requests
        self._limits = limits
        self._seed = seed

    def _begun(self, query: Query) -> Transcript:
        return Transcript(query_id=query.query_id, max_seconds=self._limits.max_seconds)

    def _note(self, transcript: Transcript, completion: Completion) -> None:
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

    def _carry_out(self, asked: Sequence[tuple[Query, Transcript]]) -> Steps[None]:
        return self._requests.carry_out(asked)
