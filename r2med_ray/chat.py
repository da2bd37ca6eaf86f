"""What a language model is asked, and what it answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias

Message: TypeAlias = Mapping[str, Any]
"""`role` and `content`, both text, as in OpenAI's chat interface; `tool_calls` and `tool_call_id` where tools are."""

Tool: TypeAlias = Mapping[str, Any]
"""A tool that a model may call, as in OpenAI's chat interface: `type`, and `function` with its parameters' schema."""

Ending: TypeAlias = Literal["whole", "limit", "filter", "failure", "not said", "other"]
"""What the end of an answer means.

- `whole`: the model ended the answer, or a text of `ChatPrompt.stop` did.
- `limit`: a limit on tokens cut the answer.
- `filter`: the service withheld the answer because of what it says.
- `failure`: the service broke the answer off. Another attempt may bring a whole one.
- `not said`: nobody knows, as in published files.
- `other`: the word is none of `_ENDINGS`, e.g. `repetition`, with which vLLM stops a text that goes in circles.
"""

_ENDINGS: Mapping[Ending, tuple[str, ...]] = {
    # OpenAI; Together; TGI; Anthropic; Cohere
    "whole": ("stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete"),
    # OpenAI; Anthropic and Gemini; Mistral
    "limit": ("length", "max_tokens", "model_length"),
    # OpenAI; Anthropic; Zhipu; Gemini
    "filter": ("content_filter", "refusal", "sensitive", "safety", "prohibited_content", "blocklist", "recitation"),
    # Mistral and OpenRouter; vLLM and SGLang; DeepSeek; Zhipu
    "failure": (
        *("error", "abort", "aborted", "cancelled", "canceled"),
        *("insufficient_system_resource", "network_error"),
    ),
    "not said": ("", "none", "null"),
}
"""What an end means → the words of services for it, in lower case."""

_ENDING_OF: Mapping[str, Ending] = {word: ending for ending, words in _ENDINGS.items() for word in words}


def ending_of(finish_reason: str | None) -> Ending:
    """Return what a service's word for the end of an answer means; None if there is no word."""
    return _ENDING_OF.get((finish_reason or "").strip().lower(), "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """A conversation that a language model is to continue."""

    unit: str
    """What the prompt is about, for errors, e.g. "query '7'"."""

    messages: tuple[Message, ...]
    seed: int
    stop: tuple[str, ...] = ()
    """Texts that end the answer, and are not part of the answer."""

    shorter: tuple[tuple[Message, ...], ...] = ()
    """Shorter versions of the conversation, which are tried in turn if `messages` is too long for the model."""

    is_raw: bool = False
    """Whether the text of the only message is continued as it is, without chat template and system prompt."""

    top_tokens: int = 0
    """Of a raw prompt: how many of the likeliest next tokens are wanted with their log-probabilities, in place of a
    text. If 0, a text is."""

    tools: tuple[Tool, ...] = ()
    """What the model may call in place of an answer."""

    part: str = ""
    """Who asks, e.g. "bm25+hyde on Biology": answers to prompts of one part have like lengths. It changes no key."""


class ToolCall(NamedTuple):
    """What a model calls. A service's name for the call is left out, because it is another one every time."""

    name: str
    arguments: str
    """As the model wrote them: JSON if the model did well."""


_LEFT_OUT = ("top_tokens", "tool_calls", "computer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a language model wrote."""

    text: str
    """The whole text, or the text after the reasoning if the server separates the two. The text may be empty."""

    reasoning: str
    """The reasoning as the server marked it; empty if the server doesn't separate reasoning and text."""

    finish_reason: str
    """Why the text ended, as the server said it: `stop`, `length`, ...; see `ending_of`."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    shortened: int = 0
    """Which version of the conversation was answered: 0 for the whole one, i for the i-th of `shorter`."""

    seconds: float = field(default=0.0, compare=False)
    """Seconds from the request that was answered to the last word of its answer."""

    computer: str = field(default="", compare=False)
    """What a model of the job's own was computed on, e.g. `H100`; empty for a service, and where nobody knows."""

    top_tokens: tuple[tuple[str, float], ...] = ()
    """The likeliest next tokens with their natural log-probabilities, the likeliest first; empty for a text."""

    tool_calls: tuple[ToolCall, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for an artefact; without what is empty of `_LEFT_OUT`."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["tool_calls"] = [list(call) for call in self.tool_calls]
        return {key: value for key, value in values.items() if value or key not in _LEFT_OUT}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the completion of `to_json`."""
        tokens = tuple((token, value) for token, value in values.get("top_tokens", ()))
        calls = tuple(ToolCall(*call) for call in values.get("tool_calls", ()))
        return cls(**{**values, "top_tokens": tokens, "tool_calls": calls})


class LanguageModel(Protocol):
    """A language model's row of the catalogue, as a part sees it."""

    @property
    def name(self) -> str: ...

    @property
    def answer_format(self) -> str:
        """How the model's reasoning and answer are told apart: a name in `rewriting.answers.FORMATS`."""
        ...

    def generation_inputs(self) -> Mapping[str, Any]:
        """Return everything about model and sampling that changes a text, without seeds, for artefact keys."""
        ...


class TextGenerator(Protocol):
    """A language model that answers prompts. A runner of the workbench answers `demands.Ask` with it."""

    def generate(
        self,
        prompts: Sequence[ChatPrompt],
        *,
        keep: Callable[[int, Completion], None] | None = None,
        order: Iterable[int] | None = None,
    ) -> list[Completion]:
        """Return one completion per prompt, in the order of the prompts.

        Args:
            prompts: the conversations.
            keep: is called with the position of a prompt and its completion, as soon as the completion is there. The
                calls come from any thread, several at once. A kept completion isn't lost when another prompt fails.
            order: the positions of all prompts in the order in which they are begun. The next is asked for when there
                is a place for it. By default the first prompt goes first.

        Raises:
            StageError: prompts failed after all attempts; names their units.
        """
        ...
