"""How search agents mark their requests and answers, and how both are told from what they only mention."""

import re
from dataclasses import dataclass, replace
from functools import cached_property

from r2med_ray.rewriting.answers import FORMATS, Answer, AnswerFormat, read_answer
from r2med_ray.settings.registry import Registry
from r2med_ray.types import Compat


@dataclass(frozen=True, kw_only=True)
class AgentFormat:
    """How a family of agents marks its requests, is shown what was found, and answers."""

    request_start: str
    request_end: str
    result_start: str
    result_end: str
    condenses: bool
    answers: AnswerFormat | None = None
    """How it marks its answer, whichever model it is; None where that is as the model does."""

    def request_in(self, text: str, answers: AnswerFormat, *, finish_reason: str) -> tuple[str, str] | None:
        """Return a text up to the end of its request, and the request; None where it asks for nothing.

        What follows a request is made up. A stop string is no part of a text, so a request without an end is one
        where the text ended in it; the mark is only mentioned where reasoning or answer go on behind it.

        Args:
            text: what an agent wrote in one turn, its reasoning included.
            answers: how its model marks reasoning and answer.
            finish_reason: why it ended.
        """
        written, closed, _ = text.partition(self.request_end)
        before, opened, request = written.rpartition(self.request_start)
        goes_on = any(mark in request for mark in self._other_marks(answers))
        if not opened or not (closed or (finish_reason == "stop" and not goes_on)):
            return None
        return f"{before}{opened}{request}{self.request_end}", request.strip()

    def answer_in(
        self, text: str, answers: AnswerFormat, *, finish_reason: str | None, compat: Compat = "none"
    ) -> Answer:
        """Cut the answer out of an agent's last turn, without any request or result.

        Args:
            text: that turn, its reasoning included.
            answers: how its model marks reasoning and answer.
            finish_reason: why it ended.
            compat: see `answers.read_answer`.
        """
        form = answers
        if self.answers is not None and self.answers.answer_start in text:
            form, text = self.answers, _last(text, self.answers)
        answer = read_answer(text, form, finish_reason=finish_reason, compat=compat)
        if not self._blocks.search(answer.text):
            return answer
        left = self._blocks.sub("", answer.text).strip()
        return replace(answer, text=left, flag="empty" if answer.flag == "none" and not left else answer.flag)

    def _other_marks(self, answers: AnswerFormat) -> set[str]:
        forms = [answers] if self.answers is None else [answers, self.answers]
        of_answers = {
            mark
            for form in forms
            for mark in (form.thought_start, form.thought_end, form.answer_start, form.answer_end)
        }
        return (of_answers | {self.result_start, self.result_end}) - {""}

    @cached_property
    def _blocks(self) -> re.Pattern[str]:
        """Requests and results, cut ones up to the end of the text, and ends that nothing began."""
        marks = ((self.request_start, self.request_end), (self.result_start, self.result_end))
        whole = [f"{re.escape(start)}.*?(?:{re.escape(end)}|\\Z)" for start, end in marks]
        return re.compile("|".join([*whole, *(re.escape(end) for _, end in marks)]), re.DOTALL)


AGENTS: Registry[AgentFormat] = Registry(
    "search agent",
    [
        (
            "search-o1",
            AgentFormat(
                request_start="<|begin_search_query|>",
                request_end="<|end_search_query|>",
                result_start="<|begin_search_result|>",
                result_end="<|end_search_result|>",
                condenses=True,
            ),
        ),
        (
            "search-r1",
            AgentFormat(
                request_start="<search>",
                request_end="</search>",
                result_start="<information>",
                result_end="</information>",
                condenses=False,
                answers=FORMATS["answer-tag"],
            ),
        ),
    ],
)


def _last(text: str, form: AnswerFormat) -> str:
    """Return the last whole answer of a text with its marks, or what follows the last start where none is whole."""
    start, end = re.escape(form.answer_start), re.escape(form.answer_end)
    whole = re.match(f".*({start}.*?{end})", text, re.DOTALL)
    return whole[1] if whole else text[text.rindex(form.answer_start) :]
