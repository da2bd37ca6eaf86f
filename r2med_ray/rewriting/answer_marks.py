"""Parts a model's output at its marks into reasoning and answer; the rule is in `answers`."""

import re
from dataclasses import dataclass

from r2med_ray.rewriting.answer_formats import AnswerFormat, pattern_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """An output, parted at its marks."""

    reasoning: str = ""
    """The text before the mark of the answer."""

    answer: str | None = None
    """The text after that mark, up to the mark that ends the answer if there is one; None without an answer."""

    closed: bool = False
    """Whether all marks that the format asks for are there."""

    opened: bool = False
    """Whether the output ends in its reasoning: a mark started reasoning, and no mark ended it."""

    clear: bool = True
    """Whether the marks fit the rule, so that there is one way only to read them."""


def part(output: str, form: AnswerFormat) -> Parts:
    """Part an output at the marks of a format."""
    return _in_closed_answer(output, form) if form.answer_end else _at_last_mark(output, form)


def reasoning_within(text: str, form: AnswerFormat) -> str:
    """Return reasoning without the mark that starts it."""
    stripped = text.strip()
    start = pattern_of(form.thought_start).match(stripped)
    return stripped[start.end() :].strip() if start else stripped


def _at_last_mark(output: str, form: AnswerFormat) -> Parts:
    """Part an output of a format whose answer goes on to the end."""
    starts = list(pattern_of(form.thought_start).finditer(output))
    marks = list(pattern_of(form.answer_start).finditer(output))
    if not marks or (starts and starts[-1].start() > marks[-1].start()):
        return Parts(reasoning=output, opened=bool(starts), clear=not marks)
    return Parts(
        reasoning=output[: marks[-1].start()],
        answer=output[marks[-1].end() :],
        closed=True,
        clear=len(marks) == 1 and (not form.nests or _begin(output, starts)),
    )


def _in_closed_answer(output: str, form: AnswerFormat) -> Parts:
    """Part an output of a format whose answer has a mark at its end."""
    starts = list(pattern_of(form.thought_start).finditer(output))
    ends = list(pattern_of(form.thought_end).finditer(output))
    begins = [thought_end.end() for thought_end in reversed(ends)] or [0]
    whole = form.whole_answer
    found = next(filter(None, (whole.search(output, begin) for begin in begins)), None)
    if found is not None:
        started = [mark for mark in starts if mark.start() < found.start()]
        ended = [mark for mark in ends if mark.start() < found.start()]
        between = output[ended[-1].end() if ended else 0 : found.start()]
        inside = any(mark.start() >= found.start() and mark.end() <= found.end() for mark in [*starts, *ends])
        fits = len(ended) <= 1 and _begin(output, started) and form.answer_start not in between and not inside
        fits = fits and bool(ended or not started or not output[found.end() :].strip())
        return Parts(reasoning=output[: found.start()], answer=found[1], closed=True, clear=fits)
    head, begun, answer = output.rpartition(form.answer_start)
    last_mark = max((mark.end() for mark in [*starts, *ends]), default=0)
    in_thought = bool(starts) and (not ends or starts[-1].start() > ends[-1].start())
    if not begun or in_thought or len(head) < last_mark:
        return Parts(reasoning=output, opened=bool(starts or ends or begun))
    return Parts(reasoning=head, answer=answer)


def _begin(output: str, starts: list[re.Match[str]]) -> bool:
    """Return whether at most one mark starts reasoning, and stands at the beginning of the output."""
    return not starts or (len(starts) == 1 and not output[: starts[0].start()].strip())
