"""The marks that families of language models put around their reasoning and their answer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFormat:
    """How a family of language models marks its answer."""

    writers: tuple[str, ...]
    """Names of the models, as globs."""

    reasoning: bool
    """Whether these models think before they answer."""

    thought_start: str
    answer_start: str
    answer_end: str = ""
    """The mark that ends the answer; empty if the answer goes to the end of the text."""

    thought_end: str = ""
    """The mark that ends the reasoning; empty if `answer_start` ends it."""

    thoughts_stay: bool = False
    """Whether chat templates leave these models' reasoning in earlier messages. Most templates cut out ended
    reasoning."""

    def has_open_thought(self, text: str) -> bool:
        """Say whether reasoning has begun in a text and hasn't ended."""
        return text.rfind(self.thought_start) > max(text.rfind(end) for end in self._thought_ends)

    def has_ended_thought(self, text: str) -> bool:
        """Say whether reasoning has ended in a text."""
        return any(end in text for end in self._thought_ends)

    @property
    def _thought_ends(self) -> tuple[str, str]:
        return self.thought_end or self.answer_start, self.answer_start


SHIPPED_FORMATS = (
    (
        "think",
        AnswerFormat(
            writers=("r1-*", "qwq-32b", "qwen3-*", "demo-reasoner"),
            reasoning=True,
            thought_start="<think>",
            answer_start="</think>",
        ),
    ),
    (
        "final-response",
        AnswerFormat(
            writers=("huatuo-*",),
            reasoning=True,
            thought_start="## Thinking",
            answer_start="Final Response",
        ),
    ),
    (
        "solution",
        AnswerFormat(
            writers=("sky-32b",),
            reasoning=True,
            thought_start="<|begin_of_thought|>",
            thought_end="<|end_of_thought|>",
            answer_start="<|begin_of_solution|>",
            answer_end="<|end_of_solution|>",
        ),
    ),
    (
        "answer-tag",
        AnswerFormat(
            writers=("qwen-7b-ins", "qwen-3b-ins"),
            reasoning=True,
            thought_start="<think>",
            thought_end="</think>",
            thoughts_stay=True,
            answer_start="<answer>",
            answer_end="</answer>",
        ),
    ),
    (
        "harmony",
        AnswerFormat(
            writers=("gpt-oss-*",),
            reasoning=True,
            thought_start="<|channel|>analysis<|message|>",
            answer_start="<|channel|>final<|message|>",
        ),
    ),
    (
        "plain",
        AnswerFormat(
            writers=("qwen-7b", "qwen-32b", "qwen-72b", "llama-70b", "gpt4", "o3-mini", "demo-writer"),
            reasoning=False,
            thought_start="<think>",
            answer_start="</think>",
        ),
    ),
)
"""Name of a format → the format."""
