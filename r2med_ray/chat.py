"""What a language model is asked, and what it answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

Message: TypeAlias = Mapping[str, str]
"""`role` and `content`, as in OpenAI's chat interface."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a language model wrote."""

    text: str
    """The whole text, or the text after the reasoning if the server separates the two. The text may be empty."""

    reasoning: str
    """The reasoning as the server marked it; empty if the server doesn't separate reasoning and text."""

    finish_reason: str
    """Why the text ended, as the server said it: `stop`, `length`, ..."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    shortened: int = 0
    """Which version of the conversation was answered: 0 for the whole one, i for the i-th of `shorter`."""

    seconds: float = field(default=0.0, compare=False)
    """Seconds from the request that was answered to the last word of its answer."""


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
        self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        """Return one completion per prompt, in the order of the prompts.

        Args:
            prompts: the conversations.
            keep: is called with the position of a prompt and its completion, as soon as the completion is there. The
                calls come from any thread, several at once. A kept completion isn't lost when another prompt fails.

        Raises:
            StageError: prompts failed after all attempts; names their units.
        """
        ...
