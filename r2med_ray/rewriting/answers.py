"""Cuts the answer out of what a language model wrote.

What counts as usable, by the marker that ends the reasoning and the reason why generation ended:

| output                     | stop   | length  | unknown |
|----------------------------|--------|---------|---------|
| reasoning, marker, answer  | answer | answer  | answer  |
| opened reasoning, no marker| none   | none    | none    |
| neither, reasoning writer  | whole  | none    | none    |
| neither, plain writer      | whole  | whole   | whole   |

A reasoning writer whose end is unknown gets the strict reading: chat templates open the reasoning in the prompt, so
a text without any tag is as likely to be reasoning that was cut as an answer. Blanks, stop tokens and refusals
are no answer. The published protocol of R2MED (`src/base.py` of its repository, 62b7074) takes the whole
text where the marker is absent; under `r2med` that happens here too, and is flagged all the same.

A server that takes reasoning and answer apart leaves no markers; `joined` puts them back, so that there is one rule.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from r2med_ray.rewriting.methods import spelled
from r2med_ray.settings.registry import Registry
from r2med_ray.types import Compat

Flag: TypeAlias = Literal["none", "empty", "refusal", "no closing tag", "cut at limit"]


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
    """Empty where the answer runs to the end of the text."""

    thought_end: str = ""
    """Ends the reasoning; empty where `answer_start` does."""

    thoughts_stay: bool = False
    """Whether chat templates leave these models' reasoning in earlier messages; most cut it out once it has ended."""

    def has_open_thought(self, text: str) -> bool:
        """Say whether reasoning has begun in a text and not ended."""
        return text.rfind(self.thought_start) > max(text.rfind(end) for end in self._thought_ends)

    def has_ended_thought(self, text: str) -> bool:
        """Say whether reasoning has ended in a text."""
        return any(end in text for end in self._thought_ends)

    @property
    def _thought_ends(self) -> tuple[str, str]:
        return self.thought_end or self.answer_start, self.answer_start


FORMATS: Registry[AnswerFormat] = Registry(
    "answer format",
    [
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
    ],
)

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, as a stream that is cut between two tokens leaves it; no tokenizer takes it."""

_STOP_TOKENS = re.compile(
    r"(?:\s|</s>|<\|im_end\|>|<\|return\|>|<\|endoftext\|>|<\|eot_id\|>|<\|end_of_text\|>|<｜end▁of▁sentence｜>)+\Z"
)
_REFUSAL = re.compile(
    r"(?:I(?:['’]m| am) sorry,? (?:but )?)?I(?:['’]m| am)? (?:cannot|can['’]t|unable to|not able to) "
    r"(?:answer|assist|comply|fulfil|help|provide).{0,200}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is left of a model's output."""

    text: str
    """The answer. Empty where nothing is usable."""

    reasoning_text: str
    """What stood before the answer, without its opening tag."""

    flag: Flag


def format_of(writer: str) -> AnswerFormat:
    """Return the answer format of a model; a model that no row names is plain, think tags understood."""
    rows = (row for row in FORMATS.values() if any(fnmatchcase(spelled(writer), glob) for glob in row.writers))
    return next(rows, FORMATS["plain"])


def joined(reasoning: str, text: str, form: AnswerFormat, *, is_answer: bool = True) -> str:
    """Return the one text of a model whose server took reasoning and answer apart.

    A server without an answer has met no marker, so none is put in: the reasoning was cut, or was all there is. Where
    the server cuts at the end of the reasoning, the marks of the answer are still there, if the model wrote any.

    Args:
        reasoning: what the server called reasoning; empty where it took nothing apart.
        text: what followed it.
        form: how the model marks both.
        is_answer: whether `text` is an answer, which gets its marks where they are missing; a request gets none.
    """
    if not reasoning:
        return text
    thought = f"{form.thought_start}{reasoning}"
    if not text:
        return thought
    if form.thought_end and (not is_answer or form.answer_start in text):
        return f"{thought}{form.thought_end}{text}"
    return f"{thought}{form.answer_start}{text}{form.answer_end}"


def read_answer(
    raw: str | None, writer: str | AnswerFormat, *, finish_reason: str | None = None, compat: Compat = "none"
) -> Answer:
    """Cut the answer out of a model's output.

    Args:
        raw: the output; None is an output without text.
        writer: name of the model, e.g. "r1-qwen-32b", where underscores stand for dashes; or its format.
        finish_reason: "stop", "length" or "content_filter" as the server said it; None where nobody knows, as in
            published files.
        compat: "r2med" takes the published way: first marker wins, the whole text where there is none.
    """
    output = _LONE_SURROGATE.sub("\ufffd", raw or "")
    row = writer if isinstance(writer, AnswerFormat) else format_of(writer)
    before, start, after = output.partition(row.answer_start)
    body, end, _ = after.partition(row.answer_end) if row.answer_end else (after, "", "")
    closed = bool(start) and (bool(end) or not row.answer_end)
    opened = output.lstrip().startswith(row.thought_start)

    if compat == "r2med":
        text = body.strip() if row.reasoning and closed else output
    elif start:
        text = _trim(body)
    elif opened or (row.reasoning and finish_reason != "stop"):
        text = ""
    else:
        text = _trim(output)
    refused = finish_reason == "content_filter" or _REFUSAL.fullmatch(_trim(text)) is not None

    flag: Flag = "none"
    if finish_reason == "length":
        flag = "cut at limit"
    elif _trim(output) and not closed and (opened or row.reasoning):
        flag = "no closing tag"
    elif refused:
        flag = "refusal"
    elif not _trim(text):
        flag = "empty"
    reasoning = before if start or not text else ""
    return Answer(
        text="" if refused and compat == "none" else text,
        reasoning_text=reasoning.strip().removeprefix(row.thought_start).strip(),
        flag=flag,
    )


def _trim(text: str) -> str:
    """Remove surrounding blanks and the stop tokens that an engine left at the end."""
    return _STOP_TOKENS.sub("", text).lstrip()
