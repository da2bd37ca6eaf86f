"""Carries out the requests of search agents. If a request can't be carried out, the agent is told why."""

from collections.abc import Sequence

from r2med_ray.demands import Steps
from r2med_ray.first_stage import FirstStage
from r2med_ray.rewriting.agents.condensing import Condenser
from r2med_ray.rewriting.agents.conversations import NO_MORE
from r2med_ray.rewriting.agents.formats import AgentFormat
from r2med_ray.rewriting.agents.transcripts import Transcript, Turn
from r2med_ray.rewriting.passages import Passage, find_passages
from r2med_ray.settings.rewriter import SearchAgentConfig
from r2med_ray.types import Query, Task

NEITHER = "That was neither an answer nor a request. Write what to look for between {start} and {end}, or answer."
EMPTY = "The request was empty. Write what to look for between {start} and {end}."
TOO_LONG = "The request has {words} words; at most {most} are possible. Ask for one thing at a time."
MOST_WORDS = 64
"""The most words of a request. A longer request is most likely a passage, not a question for a passage."""


class Requests:
    """Carries out all requests of a turn in one search.

    Args:
        task: the task whose corpus is searched.
        tool: the first stage that searches the corpus.
        form: how the agent marks its requests.
        limits: how many passages and words are shown, and how many searches there may be.
        condenser: condenses the passages; None for agents that read passages as they are.
    """

    def __init__(
        self, task: Task, tool: FirstStage, form: AgentFormat, limits: SearchAgentConfig, condenser: Condenser | None
    ) -> None:
        self._task = task
        self._tool = tool
        self._form = form
        self._limits = limits
        self._condenser = condenser

    def carry_out(self, asked: Sequence[tuple[Query, Transcript]]) -> Steps[None]:
        """Write into the last turn of each conversation what the model is shown next.

        Args:
            asked: conversations whose last turn has a request, or should have one.
        """
        for _, transcript in asked:
            turn = transcript.turns[-1]
            turn.shown = self._problem(turn)
            turn.problem = turn.shown is not None
        sound = [(query, item) for query, item in asked if not item.turns[-1].problem]
        if not sound:
            return
        found = yield from self._find([(query, item.turns[-1].request or "") for query, item in sound])
        passages = ["\n".join(f"[{i}] {self._cut(text)}" for i, (_, text) in enumerate(hits, 1)) for hits in found]
        shown = (yield from self._condenser.condense(sound, passages)) if self._condenser else passages
        for (_, transcript), hits, text in zip(sound, found, shown, strict=True):
            turn = transcript.turns[-1]
            turn.found = [doc_id for doc_id, _ in hits]
            turn.words = [len(passage.split()) for _, passage in hits]
            turn.shown = text or "Nothing was found."
            if transcript.requests >= self._limits.max_turns:
                turn.shown = f"{turn.shown}\n{NO_MORE}"

    def _find(self, requests: Sequence[tuple[Query, str]]) -> Steps[list[list[Passage]]]:
        """Return the passages that are found for each request about a query, best first: ids with texts."""
        queries = tuple(
            Query(query_id=f"request {number}", text=text, excluded=query.excluded)
            for number, (query, text) in enumerate(requests)
        )
        found = yield from find_passages(self._task, self._tool, queries, self._limits.depth)
        return [found[query.query_id] for query in queries]

    def _problem(self, turn: Turn) -> str | None:
        """Return a message on what is wrong with a request; None if nothing is wrong."""
        marks = {"start": self._form.request_start, "end": self._form.request_end}
        words = len((turn.request or "").split())
        if turn.request is None:
            return NEITHER.format(**marks)
        if not words:
            return EMPTY.format(**marks)
        return TOO_LONG.format(words=words, most=MOST_WORDS) if words > MOST_WORDS else None

    def _cut(self, text: str) -> str:
        return " ".join(text.split()[: self._limits.words])
