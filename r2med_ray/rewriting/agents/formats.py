"""The marks of search agents for requests and answers, and how real marks are told from mentioned ones."""

import re
from dataclasses import dataclass, replace
from functools import cached_property

from r2med_ray.chat import ending_of
from r2med_ray.rewriting.answer_formats import AnswerFormat, pattern_of
from r2med_ray.rewriting.answers import FORMATS, Answer, read_answer
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.registry import Registry

_DEFAULT = Rules()


@dataclass(frozen=True, kw_only=True)
class AgentFormat:
    """The marks of a family of agents: for requests, for results, and for answers."""

    request_start: str
    request_end: str
    result_start: str
    result_end: str
    condenses: bool
    answers: AnswerFormat | None = None
    """How agents of this family mark their answer, whatever their model is; None for the model's own marks."""

    def request_in(self, text: str, answers: AnswerFormat, *, finish_reason: str) -> tuple[str, str] | None:
        """Return a text up to the end of its request, and the request. Return None if the text has no request.

        The first whole tag of a turn decides, as in Search-R1: text after a request is made up by the model and is
        left out, and a request after an answer is none. An answer in thoughts isn't given yet, so a request after it
        counts.

        Servers leave the stop string out of a text. So a request without its end mark counts if the text ends in the
        request. If reasoning or answer go on after the start mark, the mark is only mentioned.

        Args:
            text: what an agent wrote in one turn, its reasoning included.
            answers: how the agent's model marks reasoning and answer.
            finish_reason: why the text ended.
        """
        found = self._request(text, answers, finish_reason)
        if found is None or self._given(found[0], answers) is not None:
            return None
        before, request = found
        return f"{before}{self.request_start}{request}{self.request_end}", request.strip()

    def answer_in(
        self, text: str, answers: AnswerFormat, *, finish_reason: str | None, rules: Rules = _DEFAULT
    ) -> Answer:
        """Return the answer in an agent's last turn, without any request or result.

        The first whole tag that isn't empty and stands outside of thoughts is the answer, as for requests. What an
        agent writes after it, and a request after it, count for nothing. If no tag is whole, the answer is what
        follows the thoughts.

        Args:
            text: the text of that turn, its reasoning included.
            answers: how the agent's model marks reasoning and answer.
            finish_reason: why the text ended.
            rules: see `answers.read_answer`.
        """
        form = answers
        found = self._request(text, answers, finish_reason)
        if found is not None and self._given(found[0], answers) is not None:
            text = found[0]
        given = self._given(text, answers)
        if given is not None and given[1] is self.answers:
            text, form = given
        elif given is None and self.answers is not None:
            rest = _after_thoughts(text, answers)
            text, form = (rest, self.answers) if self.answers.answer_start in rest else (text, answers)
        answer = read_answer(text, form, finish_reason=finish_reason, rules=rules)
        if not self._blocks.search(answer.text):
            return answer
        left = self._blocks.sub("", answer.text).strip()
        return replace(answer, text=left, flag="empty" if answer.flag == "none" and not left else answer.flag)

    def _request(self, text: str, answers: AnswerFormat, finish_reason: str | None) -> tuple[str, str] | None:
        """Return the text before the first whole request, and the request; None if there is none."""
        written, closed, _ = text.partition(self.request_end)
        before, opened, request = written.rpartition(self.request_start)
        goes_on = any(pattern_of(mark).search(request) for mark in self._other_marks(answers))
        is_whole = opened and (closed or (ending_of(finish_reason) == "whole" and not goes_on))
        return (before, request) if is_whole else None

    def _given(self, text: str, answers: AnswerFormat) -> tuple[str, AnswerFormat] | None:
        """Return the first whole answer that isn't empty and stands outside of thoughts, and its format."""
        given = []
        for form in self._forms(answers):
            for found in form.whole_answer.finditer(text) if form.answer_end else ():
                if self._blocks.sub("", found[1]).strip() and not _in_thoughts(found, text, answers):
                    given.append((found.start(), found[0], form))
        return min(given, key=lambda one: one[0])[1:] if given else None

    def _forms(self, answers: AnswerFormat) -> list[AnswerFormat]:
        """Return the formats by which an agent may mark its answer."""
        return [answers] if self.answers is None else [answers, self.answers]

    def _other_marks(self, answers: AnswerFormat) -> set[str]:
        of_answers = {
            mark
            for form in self._forms(answers)
            for mark in (form.thought_start, form.thought_end, form.answer_start, form.answer_end)
        }
        return (of_answers | {self.result_start, self.result_end}) - {""}

    @cached_property
    def _blocks(self) -> re.Pattern[str]:
        """A pattern of requests and results, and of end marks alone.

        A request or result without its end mark reaches to the end of the text.
        """
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


def _in_thoughts(found: re.Match[str], text: str, form: AnswerFormat) -> bool:
    """Say whether a part of a text stands in thoughts, which a template may have opened."""
    after = text[found.end() :]
    end = pattern_of(form.thought_end or form.answer_start).search(after)
    ends_later = end is not None and pattern_of(form.thought_start).search(after, 0, end.start()) is None
    return ends_later or form.has_open_thought(text[: found.start()])


def _after_thoughts(text: str, form: AnswerFormat) -> str:
    """Return the text after the last mark that ends thoughts; all of it if there is none."""
    ends = [found.end() for found in pattern_of(form.thought_end or form.answer_start).finditer(text)]
    return text[ends[-1] :] if ends else text
