"""Leads conversations with a model that calls tools, turn by turn, until it has named its results.

    ask → calls → one search for all of them → ask → ... → final_results

What the service calls a call of a tool is another name every time; the messages name calls `call_1`, `call_2`, ...
"""

from collections.abc import Sequence

from r2med_ray.chat import ChatPrompt, Completion, LanguageModel, Message, ToolCall
from r2med_ray.demands import Steps
from r2med_ray.first_stage import FirstStage
from r2med_ray.rewriting.agents.conversations import BRIEF_WORDS, chat_prompt, message
from r2med_ray.rewriting.agents.requests import MOST_WORDS, TOO_LONG
from r2med_ray.rewriting.agents.tool_transcripts import Call, ToolTranscript, ToolTurn
from r2med_ray.rewriting.agents.tools import Final, Problem, Retrieve, arguments_of, read_call, tools
from r2med_ray.rewriting.agents.turns import TurnByTurn
from r2med_ray.rewriting.passages import Passage, find_passages
from r2med_ray.settings.rewriter import SearchAgentConfig
from r2med_ray.settings.templates import Template
from r2med_ray.types import DocId, Query, Task

NO_CALL = "That called no tool. Call retrieve to search, or final_results to end."
NO_MORE = "No more turns are possible. Call final_results with the ids that you have."
NOT_SHOWN = "None of these ids was shown. Give ids of passages that retrieve has shown."
NOTHING = "Nothing was found."
NOTED = "Noted."


class ToolLeader(TurnByTurn[ToolTranscript]):
    """Leads conversations to their end.

    Args:
        task: the task whose corpus is searched.
        tool: the first stage that searches the corpus.
        model: the language model.
        start: the first message, with the place `query`.
        limits: how much is shown, and when a conversation has to end.
        seed: the seed of every text.
    """

    def __init__(
        self,
        task: Task,
        tool: FirstStage,
        model: LanguageModel,
        start: Template,
        limits: SearchAgentConfig,
        seed: int,
    ) -> None:
        super().__init__(model)
        self._task = task
        self._tool = tool
        self._start = start
        self._limits = limits
        self._seed = seed
        self._tools = tools(limits.depth)

    def excluded(self, query: Query) -> frozenset[DocId]:
        """Return the documents that no search for a query shows."""
        return query.excluded | ({query.query_id} if self._tool.drop_identical_ids else set())

    def _begun(self, query: Query) -> ToolTranscript:
        return ToolTranscript(query_id=query.query_id)

    def _note(self, transcript: ToolTranscript, completion: Completion) -> None:
        turn = ToolTurn(
            text=completion.text,
            finish_reason=completion.finish_reason,
            tokens=completion.completion_tokens or 0,
            seconds=completion.seconds,
            shortened=completion.shortened > 0,
            shown="" if completion.tool_calls else NO_CALL,
        )
        turn.calls = [self._called(transcript, call) for call in completion.tool_calls]
        transcript.turns.append(turn)
        if transcript.ended is not None:
            return
        if turn.shortened:
            transcript.ended = "context limit"
        elif len(transcript.turns) > self._limits.max_turns:
            transcript.ended = "turn limit"
        elif transcript.tokens >= self._limits.max_tokens:
            transcript.ended = "token limit"
        elif transcript.seconds >= self._limits.max_seconds:
            transcript.ended = "time limit"
        elif len(transcript.turns) == self._limits.max_turns:
            turn.shown = NO_MORE

    def _called(self, transcript: ToolTranscript, call: ToolCall) -> Call:
        """Return a call with what it asks for. The first answer with an id that was shown ends the conversation."""
        called = Call(name=call.name, arguments=call.arguments, shown=NOTED)
        match read_call(call, self._limits.depth):
            case Problem(told):
                called.shown, called.problem = told, True
            case Retrieve(query, top_k):
                words = len(query.split())
                called.query, called.top_k = query, top_k
                if words > MOST_WORDS:
                    called.query, called.problem = None, True
                    called.shown = TOO_LONG.format(words=words, most=MOST_WORDS)
            case Final(ids) if transcript.ended is None:
                self._answer(transcript, called, ids)
        return called

    def _answer(self, transcript: ToolTranscript, called: Call, ids: Sequence[str | None]) -> None:
        documents = {f"p{number}": doc_id for number, doc_id in enumerate(transcript.shown, start=1)}
        known = [documents[each] for each in ids if each in documents]
        transcript.ranked = list(dict.fromkeys(known))
        transcript.invented += len(ids) - len(known)
        transcript.repeated += len(known) - len(transcript.ranked)
        if known:
            transcript.ended = "answered"
        else:
            called.shown, called.problem = NOT_SHOWN, True

    def _carry_out(self, asked: Sequence[tuple[Query, ToolTranscript]]) -> Steps[None]:
        calls = [
            (query, transcript, call)
            for query, transcript in asked
            for call in transcript.turns[-1].calls
            if call.query is not None
        ]
        if not calls:
            return
        requests = [
            Query(query_id=f"request {number}", text=call.query or "", excluded=self.excluded(query))
            for number, (query, _, call) in enumerate(calls)
        ]
        found = yield from find_passages(self._task, self._tool, requests, self._limits.depth)
        for request, (_, transcript, call) in zip(requests, calls, strict=True):
            self._show(transcript, call, found[request.query_id][: call.top_k])

    def _show(self, transcript: ToolTranscript, call: Call, passages: Sequence[Passage]) -> None:
        call.found = [doc_id for doc_id, _ in passages]
        call.words = [len(text.split()) for _, text in passages]
        numbers = {doc_id: number for number, doc_id in enumerate(transcript.shown, start=1)}
        lines = [f"[p{numbers[doc_id]}] {' '.join(text.split()[: self._limits.words])}" for doc_id, text in passages]
        call.shown = "\n".join(lines) or NOTHING

    def _prompt(self, query: Query, transcript: ToolTranscript) -> ChatPrompt:
        first = message("user", self._start.fill(query=query.text))
        return chat_prompt(
            f"query {query.query_id!r}, turn {len(transcript.turns) + 1}",
            [first, *messages(transcript.turns)],
            [first, *messages(transcript.turns, is_brief=True)],
            seed=self._seed,
            tools=self._tools,
        )


def messages(turns: Sequence[ToolTurn], *, is_brief: bool = False) -> list[Message]:
    """Return turns as messages. A brief conversation has the first words of each result, and asks to end it."""
    talk: list[Message] = []
    number = 0
    for turn in turns:
        calls = [(f"call_{place}", call) for place, call in enumerate(turn.calls, start=number + 1)]
        number += len(calls)
        if calls:
            talk.append(
                {**message("assistant", turn.text), "tool_calls": [_sent(name, call) for name, call in calls]}
            )
        elif turn.text:
            talk.append(message("assistant", turn.text))
        for name, call in calls:
            shown = " ".join(call.shown.split()[:BRIEF_WORDS]) if is_brief else call.shown
            talk.append({**message("tool", shown), "tool_call_id": name})
        told = NO_MORE if is_brief and turn is turns[-1] else turn.shown
        if told:
            talk.append(message("user", told))
    return talk


def _sent(name: str, call: Call) -> dict[str, object]:
    # Servers parse the arguments for the chat template, and refuse the whole request if they are no JSON object.
    arguments = call.arguments if arguments_of(ToolCall(call.name, call.arguments)) is not None else "{}"
    return {"id": name, "type": "function", "function": {"name": call.name, "arguments": arguments}}
