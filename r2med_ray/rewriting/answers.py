"""Cuts the answer out of what a language model wrote.

**Which mark counts.** A text fits if it is reasoning, one mark, and the answer. The reasoning begins with its own
mark or with none, because chat templates open it in the prompt. If there are more marks, nobody can know which one is
real and which one is only talked about. So the text is flagged `unclear marks`, and is read in the way that lets no
reasoning through:

| marks                                             | answer                                                        |
|---------------------------------------------------|---------------------------------------------------------------|
| several that end reasoning (blocks that are       | the text after the last one, as in the chat templates of      |
| nested or repeated, or a mark talked about)       | DeepSeek-R1 and Qwen3                                         |
| one starts reasoning after the last end           | none: the text ended in its reasoning                         |
| several start reasoning, or one within the text   | the text after the end                                        |

If an answer has a mark at its end (`</answer>`), the first whole answer counts that follows an end of reasoning, as
late an end as possible. What follows that answer is not read. Marks of answers within reasoning are talked about.
`<think>` may be spelled `<THINK>`, `<thinking>`, ...; see `answer_formats`.

**What is an answer.** That depends also on the reason why generation ended (`chat.ending_of`):

| output                     | whole  | limit   | unknown |
|----------------------------|--------|---------|---------|
| reasoning, mark, answer    | answer | answer  | answer  |
| opened reasoning, no mark  | none   | none    | none    |
| neither, reasoning writer  | whole  | none    | none    |
| neither, plain writer      | whole  | whole   | whole   |

A reasoning writer's text without any mark may be an answer, or reasoning that was cut. If the end is unknown, such a
text counts as cut reasoning. White space, stop tokens and refusals are no answer. A text that begins with an apology,
or that refuses and says more, is an answer, and is flagged. If the reason is a word that is not known, the flag is
that word.

The published protocol of R2MED (`src/base.py` of its repository, 62b7074) splits at the first mark and takes the
whole text if the mark is missing (`Rules.missing_marker`), and it uses empty texts and refusals
(`Rules.unusable_texts`). All these texts are flagged under either protocol.

A server that separates reasoning and answer leaves no marks. `joined` puts the marks back, so that one rule is
enough.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from r2med_ray.chat import Completion, Ending, ending_of
from r2med_ray.rewriting.answer_formats import SHIPPED_FORMATS, AnswerFormat
from r2med_ray.rewriting.answer_marks import Parts, part, reasoning_within
from r2med_ray.rewriting.methods import spelled
from r2med_ray.rewriting.refusals import Refusal, refusal_in
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.registry import Registry

Flag: TypeAlias = str
"""What is wrong with an answer: `none`, `empty`, `refusal`, `refusal before a text`, `unclear marks`,
`no closing tag`, `cut at limit`, `context limit`, or a service's own word for an unusual end."""

FORMATS: Registry[AnswerFormat] = Registry("answer format", SHIPPED_FORMATS)

NO_ROOM: Flag = "context limit"
"""The flag of a prompt that is too long for the model in all its versions, so that there is no text."""

_DEFAULT = Rules()

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character, which is left if a stream is cut between two tokens. No tokenizer reads it."""

_STOP_TOKENS = re.compile(
    r"(?:\s|</s>|<\|im_end\|>|<\|return\|>|<\|endoftext\|>|<\|eot_id\|>|<\|end_of_text\|>|<｜end▁of▁sentence｜>)+\Z"
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
        finish_reason: the service's word for the end of the text; None if it is unknown, as in published files.
        rules: whether the published way is used for a missing marker and for unusable texts.
    """
    output = _LONE_SURROGATE.sub("\ufffd", raw or "")
    row = writer if isinstance(writer, AnswerFormat) else format_of(writer)
    parts, ending = part(output, row), ending_of(finish_reason)
    if rules.missing_marker:
        text = _as_published(output, row)
    elif parts.answer is not None:
        text = _trim(parts.answer)
    elif parts.opened or (row.reasoning and ending != "whole"):
        text = ""
    else:
        text = _trim(output)
    refusal: Refusal = "whole" if ending == "filter" else refusal_in(_trim(text))
    return Answer(
        text="" if refusal == "whole" and not rules.unusable_texts else text,
        reasoning_text=reasoning_within(parts.reasoning if parts.answer is not None or not text else "", row),
        flag=_ended(finish_reason, ending) or _flaw(output, text, parts, refusal, row),
    )


def _ended(finish_reason: str | None, ending: Ending) -> Flag:
    """Return the flag of a text that was not ended as usual; "" for a text that was, or whose end is not known."""
    if ending == "limit":
        return "cut at limit"
    return " ".join((finish_reason or "").split()) if ending in ("failure", "other") else ""


def _flaw(output: str, text: str, parts: Parts, refusal: Refusal, row: AnswerFormat) -> Flag:
    """Return what is wrong with the marks or the words of a text; "none" if nothing is."""
    if _trim(output) and not parts.closed and (parts.opened or row.reasoning):
        return "no closing tag"
    if refusal == "whole":
        return "refusal"
    if not parts.clear:
        return "unclear marks"
    if not _trim(text):
        return "empty"
    return "refusal before a text" if refusal == "part" else "none"


def _as_published(output: str, row: AnswerFormat) -> str:
    """Return the text between the first marks of the answer; the whole output if a mark is missing."""
    _, start, after = output.partition(row.answer_start)
    body, end, _ = after.partition(row.answer_end) if row.answer_end else (after, "", "")
    is_marked = bool(start) and (bool(end) or not row.answer_end)
    return body.strip() if row.reasoning and is_marked else output


def read_completion(completion: Completion, form: AnswerFormat, rules: Rules = _DEFAULT) -> Answer:
    """Cut the answer out of a completion, whether or not the server separated the reasoning; see `read_answer`."""
    raw = joined(completion.reasoning, completion.text, form)
    return read_answer(raw, form, finish_reason=completion.finish_reason, rules=rules)


def _trim(text: str) -> str:
    """Remove white space around a text, and the stop tokens that an engine left at its end."""
    return _STOP_TOKENS.sub("", text).lstrip()
