"""Cuts the answer out of what a language model wrote.

The answer depends on the marker that ends the reasoning, and on the reason why generation ended:

| output                     | stop   | length  | unknown |
|----------------------------|--------|---------|---------|
| reasoning, marker, answer  | answer | answer  | answer  |
| opened reasoning, no marker| none   | none    | none    |
| neither, reasoning writer  | whole  | none    | none    |
| neither, plain writer      | whole  | whole   | whole   |

A reasoning writer's text without any tag may be an answer, or reasoning that was cut, because chat templates open the
reasoning in the prompt. If the end is unknown, such a text counts as cut reasoning. White space, stop tokens and
refusals are no answer.

The published protocol of R2MED (`src/base.py` of its repository, 62b7074) takes the whole text if the marker is
missing (`Rules.missing_marker`), and uses empty texts and refusals (`Rules.unusable_texts`). All these texts are
flagged under either protocol.

A server that separates reasoning and answer leaves no markers. `joined` puts the markers back, so that one rule is
enough.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from r2med_ray.chat import Completion
from r2med_ray.rewriting.answer_formats import SHIPPED_FORMATS, AnswerFormat
from r2med_ray.rewriting.methods import spelled
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.registry import Registry

Flag: TypeAlias = Literal["none", "empty", "refusal", "no closing tag", "cut at limit", "context limit"]


FORMATS: Registry[AnswerFormat] = Registry("answer format", SHIPPED_FORMATS)

NO_ROOM: Flag = "context limit"
"""The flag of a prompt that is too long for the model in all its versions, so that there is no text."""

_DEFAULT = Rules()

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character, which is left if a stream is cut between two tokens. No tokenizer reads it."""

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
    """The answer and the reasoning that were cut out of a model's output."""

    text: str
    """The answer; empty if nothing is usable."""

    reasoning_text: str
    """The reasoning before the answer, without its opening tag."""

    flag: Flag


def format_of(writer: str) -> AnswerFormat:
    """Return the answer format of a model. A model that no row names is plain; its think tags are understood too."""
    rows = (row for row in FORMATS.values() if any(fnmatchcase(spelled(writer), glob) for glob in row.writers))
    return next(rows, FORMATS["plain"])


def joined(reasoning: str, text: str, form: AnswerFormat, *, is_answer: bool = True) -> str:
    """Return reasoning and answer as one text, in the form that the model wrote before a server separated the two.

    If no answer follows the reasoning, no marker is put in, because the server has seen none: the reasoning was cut,
    or is the whole text. Marks of the answer that the server left in `text` are not put in again.

    Args:
        reasoning: what the server called reasoning; empty if the server separated nothing.
        text: the text after the reasoning.
        form: how the model marks reasoning and answer.
        is_answer: whether `text` is an answer. An answer gets its marks if they are missing; a request gets none.
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
    raw: str | None, writer: str | AnswerFormat, *, finish_reason: str | None = None, rules: Rules = _DEFAULT
) -> Answer:
    """Cut the answer out of a model's output.

    Args:
        raw: the output; None for an output without text.
        writer: name of the model, e.g. "r1-qwen-32b", with dashes or underscores; or the model's format.
        finish_reason: "stop", "length" or "content_filter" as the server said it; None if it is unknown, as in
            published files.
        rules: whether the published way is used for a missing marker and for unusable texts.
    """
    output = _LONE_SURROGATE.sub("\ufffd", raw or "")
    row = writer if isinstance(writer, AnswerFormat) else format_of(writer)
    before, start, after = output.partition(row.answer_start)
    body, end, _ = after.partition(row.answer_end) if row.answer_end else (after, "", "")
    closed = bool(start) and (bool(end) or not row.answer_end)
    opened = output.lstrip().startswith(row.thought_start)

    if rules.missing_marker:
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
        text="" if refused and not rules.unusable_texts else text,
        reasoning_text=reasoning.strip().removeprefix(row.thought_start).strip(),
        flag=flag,
    )


def read_completion(completion: Completion, form: AnswerFormat, rules: Rules = _DEFAULT) -> Answer:
    """Cut the answer out of a completion, whether or not the server separated the reasoning; see `read_answer`."""
    raw = joined(completion.reasoning, completion.text, form)
    return read_answer(raw, form, finish_reason=completion.finish_reason, rules=rules)


def _trim(text: str) -> str:
    """Remove white space around a text, and the stop tokens that an engine left at its end."""
    return _STOP_TOKENS.sub("", text).lstrip()
