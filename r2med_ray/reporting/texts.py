"""What a report knows of single queries beyond ids and figures: texts, passages, rewritings, terms and sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from r2med_ray.sentences import Told
from r2med_ray.types import DocId, QueryId

SHOWN = 10
"""Documents of each ranking that are shown with their text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query as its collection has it."""

    text: str
    answer: str = ""
    body_system: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a rewriter wrote for one query."""

    texts: tuple[str, ...] = ()
    """The texts that were used in a search."""

    reasoning: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTexts:
    """The texts of one task, as far as its report shows them."""

    questions: Mapping[QueryId, Question]
    passages: Mapping[DocId, str]
    """Title and text of the documents that are relevant, or among the first `SHOWN` of a system."""

    written: Mapping[str, Mapping[QueryId, Written]] = field(default_factory=dict)
    """System → query_id → what its rewriter wrote."""

    terms: Mapping[str, Mapping[QueryId, Mapping[DocId, Mapping[str, float]]]] = field(default_factory=dict)
    """System with BM25 → query_id → document among its first `SHOWN` → term that query and document share → what it
    adds to BM25's score."""

    sentences: Mapping[str, Told] = field(default_factory=dict)
    """System with late interaction → which sentences of its first documents make their scores."""
