"""What the search page is asked and what it answers, as JSON. An answer comes in events, one per line.

    begun → writing ... → rewritten → retrieved, once per retriever → fused → reranked → done, or error

A step that a system doesn't have has no event.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Event: TypeAlias = Mapping[str, Any]
"""`event` names what has happened; the other keys are those of `Begun`, `Writing`, `Rewritten`, `RankedList`, `Done`
and `Failed`."""

NDJSON = "application/x-ndjson"


class Json(BaseModel):
    """A JSON object of the page's interface."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class SearchRequest(Json):
    """A question."""

    question: str = Field(min_length=1, pattern=r"\S")
    """Any text. The text of one of the task's own questions is searched for as the benchmark searches for it."""

    system: str = ""
    """Name of a system; the benchmark's first one if it is left out."""

    task: str = ""
    """Name of the task whose corpus is searched; the benchmark's first one if it is left out."""

    k: int = Field(default=10, ge=1, le=100)
    """The most passages of each list."""


class Sentence(Json):
    """A sentence of a passage that late interaction found."""

    number: int
    """Its place in the passage, from 1."""

    start: int
    """Where it begins in title, space and text, or in the text of a passage without a title; in characters."""

    stop: int
    percent: int
    """The part of the passage's score that comes of tokens in the sentence."""


class Passage(Json):
    """A document in a list."""

    rank: int
    """Its place, from 1."""

    doc_id: str
    score: float
    title: str
    text: str
    grade: int | None
    """How relevant the benchmark says it is, if the question is the benchmark's and the document is judged."""

    before: dict[str, int | None]
    """Name of each list that this one was made from → its place there; null if it is not in that list."""

    sentences: list[Sentence]
    """Those with the largest parts of the score, if the list was made by late interaction."""


class RankedList(Json):
    """The first passages of a ranking."""

    name: str
    """The retriever's name, the method of fusion, or the names of the rerankers."""

    seconds: float
    """Seconds that this step took."""

    passages: list[Passage]


class Text(Json):
    """A text that a question was rewritten with."""

    text: str
    method: str
    use: str


class Rewritten(Json):
    """What rewriting made of the question."""

    texts: list[Text]
    notes: list[str]
    """What was wrong with the texts of a language model, e.g. `cut at limit`."""

    seconds: float


class Begun(Json):
    """A question whose turn has come."""

    question: str
    system: str
    task: str
    query_id: str | None
    """The question's id in the benchmark, if it is one of the benchmark's."""

    relevant: int | None
    """The number of documents that are relevant to it, if it is one of the benchmark's."""


class Writing(Json):
    """What a language model has just written for the question."""

    step: Literal["rewriting", "reranking"]
    unit: str
    """Names the prompt."""

    again: bool
    """Whether the answer to this prompt begins here, in place of what was written for it before."""

    reasoning: str
    text: str


class Done(Json):
    """The end of an answer."""

    seconds: float
    """Seconds since the question's turn came."""


class Failed(Json):
    """Why there is no answer."""

    status: int
    """The HTTP status that stands for it."""

    detail: str


class SearchAnswer(Begun):
    """All that was found."""

    rewritten: Rewritten | None
    """None for a system that asks questions as they are."""

    retrieved: list[RankedList]
    """One list per retriever."""

    fused: RankedList | None
    """None for a system with one retriever."""

    reranked: RankedList | None
    """None for a system without a reranker."""

    seconds: float
    """Seconds since the question's turn came."""


class SystemOffer(Json):
    """A system that can be asked."""

    name: str
    description: str
    """Its steps in one line."""

    replays: bool
    """Whether its texts were written earlier. It can then be asked the benchmark's own questions only."""


class Question(Json):
    """One of a task's own questions."""

    query_id: str
    text: str


class TaskOffer(Json):
    """A task whose corpus can be searched."""

    name: str
    documents: int
    questions: int


class Offer(Json):
    """What can be asked."""

    benchmark: str
    systems: list[SystemOffer]
    tasks: list[TaskOffer]
    missing: list[str]
    """What was left out, because it needs something that is not at hand."""


class Refusal(Exception):  # noqa: N818  (it says no, and nothing went wrong)
    """A question that is not answered.

    Args:
        status: the HTTP status.
        detail: why, in words.
        retry_after_s: seconds after which the same question may be answered; None if it never will.
    """

    def __init__(self, status: int, detail: str, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.retry_after_s = retry_after_s


def event(kind: str, value: Json) -> Event:
    """Return an event."""
    return {"event": kind, **value.model_dump()}


def gathered(events: Iterable[Event]) -> SearchAnswer:
    """Return the answer that all events of a question are.

    Raises:
        Refusal: the last event says why there is no answer.
    """
    answer: dict[str, Any] = {"rewritten": None, "retrieved": [], "fused": None, "reranked": None}
    for each in events:
        kind: Literal["begun", "writing", "rewritten", "retrieved", "fused", "reranked", "done", "error"]
        kind, values = each["event"], {name: value for name, value in each.items() if name != "event"}
        if kind == "error":
            raise Refusal(values["status"], values["detail"])
        if kind in ("begun", "done"):
            answer |= values
        elif kind == "retrieved":
            answer["retrieved"].append(values)
        elif kind != "writing":
            answer[kind] = values
    return SearchAnswer.model_validate(answer)
