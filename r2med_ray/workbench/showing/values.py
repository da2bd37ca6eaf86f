"""What is shown of one query and one document, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from r2med_ray.readings import Reading, Terms

Arrow: TypeAlias = Literal["rewrite", "search", "rerank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request to a language model, and its answer if the store has it."""

    unit: str
    messages: tuple[Mapping[str, Any], ...]
    """All messages of the request, the system prompt of the model's row included."""

    request: Mapping[str, Any]
    """What else is sent: the model's name, seed, sampling, stops, and further keys of the row; no secret key."""

    shorter: int = 0
    """How many shorter versions are tried in turn if the model has no room for the messages."""

    answer: str | None = None
    """The text that is stored; None if there is none."""

    reasoning: str = ""
    """The reasoning that was cut out of the text."""

    flag: str = ""
    """What is wrong with the text; `none` if nothing is, and empty if there is no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a system: what it is given."""

    arrow: Arrow
    part: str
    """The name of the retriever, the language model or the reranker."""

    lines: tuple[str, ...] = ()
    """Facts in words."""

    texts: tuple[str, ...] = ()
    """Texts that were written for the query, with their use."""

    asked: tuple[Asked, ...] = ()
    terms: tuple[Terms, ...] = ()
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One query and one document in a system."""

    task: str
    system: str
    description: str
    """The system in one line."""

    query_id: str
    query: str
    document_id: str | None
    document: str | None
    grade: int | None
    """The document's grade for the query; None if it isn't judged."""

    device: str
    """What the encoders computed on whose stored answers are shown: `cpu` or `cuda`; empty if the store has none."""

    sections: tuple[Section, ...]
    stops: str = ""
    """Why the store says no more; empty if it answers everything."""
