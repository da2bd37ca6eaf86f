"""Puts the pieces of a streamed answer together, and refuses an answer that isn't whole."""

import time
from dataclasses import dataclass, field
from typing import Any

from r2med_ray.chat import Completion, ToolCall, ending_of
from r2med_ray.models.services.retries import GarbageError, WrongModeError
from r2med_ray.models.services.service_words import words_of

_REASONING_FIELDS = ("reasoning", "reasoning_content")
"""Keys under which servers put a model's reasoning: vLLM's key, and the older key that other servers use."""


@dataclass(slots=True)
class AnswerParts:
    """The pieces of an answer so far. An answer that isn't streamed is one piece."""

    shortened: int
    """Which version of the conversation is answered; see `Completion.shortened`."""

    computer: str = ""
    """See `Completion.computer`."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, list[str]] = field(default_factory=dict)
    """Place of a tool call → its name and its arguments so far."""

    finish_reason: str | None = None
    trouble: str = ""
    """What the service says about an answer that it broke off."""

    top_tokens: tuple[tuple[str, float], ...] = ()
    usage: Any = None
    asked: float = field(default_factory=time.monotonic)

    @property
    def begun(self) -> bool:
        """Whether a first word has come. A server that hides the model's reasoning is silent until then."""
        return bool(self.text or self.reasoning or self.calls)

    def add(self, piece: Any, holder: str, *, top_tokens: int = 0) -> None:
        """Add a piece of the answer.

        Args:
            piece: a piece as the client library returned it. The library checks nothing.
            holder: the key that holds the text: "delta" in a piece of a stream, "message" in a whole answer, "text"
                in a continued text.
            top_tokens: how many likely tokens were asked for.

        Raises:
            WrongModeError: the piece is a whole stream.
            GarbageError: the piece has no list of choices, something else than text in a text's place, or lacks the
                likely tokens; quotes the service.
        """
        choices = getattr(piece, "choices", None)
        if not isinstance(choices, list):
            if isinstance(piece, str) and piece.startswith("data:"):
                raise WrongModeError(
                    "a stream came in place of a whole answer; set `stream: true` in the model's row. "
                    f"The service sent: {words_of(piece)}"
                )
            raise GarbageError(f"expected an object with `choices`, the service sent: {words_of(piece)}")
        self.usage = getattr(piece, "usage", None) or self.usage
        for choice in choices[:1]:
            said = choice if holder == "text" else getattr(choice, holder, None)
            if content := _text(said, "text" if holder == "text" else "content"):
                self.text.append(content)
            if thought := next(filter(None, (_text(said, name) for name in _REASONING_FIELDS)), ""):
                self.reasoning.append(thought)
            for place, call in enumerate(getattr(said, "tool_calls", None) or ()):
                self._add_call(place, call)
            self.finish_reason = getattr(choice, "finish_reason", None) or self.finish_reason
            if top_tokens:
                self.top_tokens = _top_tokens(choice, top_tokens)
            if error := getattr(choice, "error", None):
                self.trouble = words_of(error)

    def _add_call(self, place: int, call: Any) -> None:
        index = getattr(call, "index", None)  # only pieces of a stream say it
        parts = self.calls.setdefault(place if index is None else index, ["", ""])
        function = getattr(call, "function", None)
        parts[0] += _text(function, "name")
        parts[1] += _text(function, "arguments")

    def completion(self) -> Completion:
        """Return the whole answer.

        Raises:
            GarbageError: the answer doesn't say why it ended, or the service broke it off; so it isn't whole.
        """
        reason, trouble = self.finish_reason, f": {self.trouble}" if self.trouble else ""
        if not isinstance(reason, str | None) or ending_of(reason) == "not said":
            raise GarbageError(f"the answer ended without a finish_reason{trouble}")
        assert reason is not None
        if ending_of(reason) == "failure":
            raise GarbageError(f"the service broke the answer off, with the finish_reason {reason!r}{trouble}")
        return Completion(
            text="".join(self.text),
            reasoning="".join(self.reasoning),
            finish_reason=reason,
            prompt_tokens=_count(self.usage, "prompt_tokens"),
            completion_tokens=_count(self.usage, "completion_tokens"),
            shortened=self.shortened,
            seconds=time.monotonic() - self.asked,
            computer=self.computer,
            top_tokens=self.top_tokens,
            tool_calls=tuple(ToolCall(*self.calls[place]) for place in sorted(self.calls)),
        )


def _text(said: Any, name: str) -> str:
    value = getattr(said, name, None)
    if not isinstance(value, str | None):
        raise GarbageError(f"expected text under `{name}`, got {words_of(value)}")
    return value or ""


def _top_tokens(choice: Any, most: int) -> tuple[tuple[str, float], ...]:
    """Return the likeliest first tokens with their log-probabilities, the likeliest first."""
    positions = getattr(getattr(choice, "logprobs", None), "top_logprobs", None)
    first = positions[0] if isinstance(positions, list) and positions else None
    if not isinstance(first, dict) or not all(isinstance(value, int | float) for value in first.values()):
        raise GarbageError(f"the service gave no log-probabilities of {most} tokens: {words_of(choice)}")
    ranked = sorted(first.items(), key=lambda item: (-item[1], item[0]))
    return tuple((token, float(value)) for token, value in ranked)


def _count(usage: Any, name: str) -> int | None:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) else None
