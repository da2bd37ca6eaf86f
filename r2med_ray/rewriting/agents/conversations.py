"""The talk of a language model with its search tool: turns as chat messages, requests and answers."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from r2med_ray.chat import ChatPrompt, Completion, Message, Tool
from r2med_ray.cuts import NO_LIMIT, CutCounter, SideCuts
from r2med_ray.rewriting.agents.formats import AgentFormat
from r2med_ray.rewriting.agents.transcripts import Transcript, Turn
from r2med_ray.rewriting.answer_formats import AnswerFormat
from r2med_ray.rewriting.answers import NO_ROOM, Answer, joined, read_answer
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.keys import Json
from r2med_ray.types import Query

NO_MORE = "No more searches are possible. Answer with what you know."
BRIEF_WORDS = 32
"""Words that are kept of each search's result, if a conversation is too long for its model. After that, the model can
only answer."""

_DEFAULT = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """How a model and a search tool talk.

    Attributes:
        agent: marks of requests and results.
        model: marks of reasoning and answers.
        in_place: whether the model goes on within its own message. If not, results come in a message of the user. The
            model can go on only as long as its thoughts are open or stay (`AnswerFormat.thoughts_stay`).
    """

    agent: AgentFormat
    model: AnswerFormat
    in_place: bool

    def inputs(self) -> dict[str, Json]:
        """Return the settings that change a conversation, for artefact keys."""
        marks = {name: mark for name, mark in asdict(self.model).items() if name != "writers"}
        return {"model": marks, "in_place": self.in_place}

    def messages(self, turns: Sequence[Turn]) -> list[Message]:
        """Return turns as messages. If the model goes on in place after some turns, these turns are one message.

        Most chat templates cut ended thoughts out of earlier messages. A template would also cut out the passages
        between the thoughts, and the model could not go on after its last word. So once thoughts have ended, the
        model's text and the search results are separate messages.
        """
        messages: list[Message] = []
        group: list[tuple[str, str]] = []
        for turn in turns:
            group.append((turn.text, f"{self.agent.result_start}\n{turn.shown}\n{self.agent.result_end}"))
            is_cut_out = not self.model.thoughts_stay and self.model.has_ended_thought(_one_text(group))
            if is_cut_out or not self.in_place:
                for text, shown in group:
                    messages += [message("assistant", text), message("user", shown)]
                group = []
        return [*messages, message("assistant", _one_text(group))] if group else messages

    def next_turn(self, turns: Sequence[Turn], completion: Completion) -> tuple[Turn, tuple[str, str] | None]:
        """Return the next turn that a model wrote after some turns, and its request; see `AgentFormat.request_in`."""
        is_answer = self.agent.request_start not in completion.text
        text = joined(completion.reasoning, completion.text, self.model, is_answer=is_answer)
        turn = Turn(
            text=text.removeprefix(self._open_thought(turns)),
            finish_reason=completion.finish_reason,
            tokens=completion.completion_tokens or 0,
            seconds=completion.seconds,
            shortened=completion.shortened > 0,
        )
        return turn, self.agent.request_in(turn.text, self.model, finish_reason=turn.finish_reason)

    def answer(self, transcript: Transcript, rules: Rules = _DEFAULT) -> Answer:
        """Return the answer in the last turn. The answer is empty if a limit has ended the conversation.

        A conversation that is too long for its model has no answer, like any other prompt that is too long.
        """
        if transcript.ended == NO_ROOM:
            return Answer(text="", reasoning_text="", flag=NO_ROOM)
        if transcript.ended not in (None, "answered"):
            return read_answer("", self.model)
        *before, last = transcript.turns
        text = f"{self._open_thought(before)}{last.text}"
        return self.agent.answer_in(text, self.model, finish_reason=last.finish_reason, rules=rules)

    def _open_thought(self, turns: Sequence[Turn]) -> str:
        """Return the start mark of the thought that is still open after these turns; "" if no thought is open."""
        last = self.messages(turns)[-1:]
        is_open = any(item["role"] == "assistant" and self.model.has_open_thought(item["content"]) for item in last)
        return self.model.thought_start if is_open else ""


def message(role: str, content: str) -> Message:
    """Return a chat message."""
    return {"role": role, "content": content}


def chat_prompt(
    unit: str,
    messages: Sequence[Message],
    shorter: Sequence[Message],
    *,
    seed: int,
    stop: tuple[str, ...] = (),
    tools: tuple[Tool, ...] = (),
) -> ChatPrompt:
    """Return a prompt with one shorter version, or with none if `shorter` is the same as `messages`."""
    versions = () if shorter == messages else (tuple(shorter),)
    return ChatPrompt(unit=unit, messages=tuple(messages), seed=seed, stop=stop, shorter=versions, tools=tools)


def brief(turns: Sequence[Turn]) -> list[Turn]:
    """Return turns with only the first words of each result. The last turn also tells the model to answer."""
    shown = [" ".join((turn.shown or "").split()[:BRIEF_WORDS]) for turn in turns]
    return [
        replace(turn, shown=f"{text}\n{NO_MORE}" if turn is turns[-1] else text)
        for turn, text in zip(turns, shown, strict=True)
    ]


def words_shown(words: Sequence[int], most: int, *, is_brief: bool) -> list[int]:
    """Return how many words of each passage of one result are shown, behind its number.

    Args:
        words: the words of each passage.
        most: the words that a passage is cut to.
        is_brief: whether the whole result is cut as by `brief`, too.
    """
    room = BRIEF_WORDS if is_brief else NO_LIMIT
    shown: list[int] = []
    for size in words:
        shown.append(max(0, min(size, most, room - 1)))
        room -= 1 + shown[-1]
    return shown


def cuts_in_words(queries: Iterable[Query], words: Sequence[int], shown: Sequence[int], most: int) -> SideCuts:
    """Return what was cut off the passages that conversations about queries showed, in words.

    Args:
        queries: they are shown whole.
        words: the words of each passage.
        shown: how many of them were shown.
        most: the words that a passage is cut to.
    """
    counter = CutCounter("words")
    counter.note_first("query", (len(query.text.split()) for query in queries))
    lost = [size - kept for size, kept in zip(words, shown, strict=True)]
    counter.note("document", shown, lost, most)
    return counter.take()


def _one_text(group: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{text}\n{shown}\n" for text, shown in group)
