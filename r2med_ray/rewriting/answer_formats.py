"""The marks that families of language models put around their reasoning and their answer."""

import re
from dataclasses import dataclass
from functools import cache

_THINK = r"(?:think(?:ing)?|thoughts?|reasoning)"
_SPELLINGS = {
    "<think>": rf"<\s*{_THINK}\s*>|\[THINK\]",
    "</think>": rf"<\s*/\s*{_THINK}\s*>|\[/THINK\]",
}
"""Marks that models spell in several ways → the pattern of all spellings. `[THINK]` is Magistral's."""


@cache
def pattern_of(mark: str) -> re.Pattern[str]:
    """Return a pattern that finds a mark in all its spellings, in upper and lower case if it has several."""
    return re.compile(_SPELLINGS.get(mark, re.escape(mark)), re.IGNORECASE if mark in _SPELLINGS else 0)


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
        start = _last(self.thought_start, text)
        return start >= 0 and start > max(_last(end, text) for end in self._thought_ends)

    def has_ended_thought(self, text: str) -> bool:
        """Say whether reasoning has ended in a text."""
        return any(pattern_of(end).search(text) for end in self._thought_ends)

    @property
    def whole_answer(self) -> re.Pattern[str]:
        """A pattern of an answer between its two marks, with the answer as its group; the format has both marks."""
        start, end = re.escape(self.answer_start), re.escape(self.answer_end)
        return re.compile(f"{start}((?:(?!{start}).)*?){end}", re.DOTALL)

    @property
    def nests(self) -> bool:
        """Whether a mark that starts reasoning has a mark of its own that ends it, so that one may hold another."""
        return bool(self.thought_end) or self.answer_start.startswith("</")

    @property
    def _thought_ends(self) -> set[str]:
        return {self.thought_end or self.answer_start, self.answer_start}


def _last(mark: str, text: str) -> int:
    """Return where a mark begins for the last time; -1 if it is not there."""
    return max((found.start() for found in pattern_of(mark).finditer(text)), default=-1)


SHIPPED_FORMATS = (
    (
        "think",
        AnswerFormat(
            writers=("r1-*", "qwq-32b", "qwen3-*", "demo-reasoner", "reasonrank-*", "rank-k-*", "rank-r1-*"),
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
