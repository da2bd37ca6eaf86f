"""What a model reads of a text: told by whatever turns the text into tokens, to whoever listens."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeAlias

from r2med_ray.cuts import Side

ReadSide: TypeAlias = Literal["query", "document", "pair"]

CHARACTERS = 120
"""Characters of a text that are kept in an example."""

MOST = 4
"""Readings of an example: a query, and generated texts with each of their prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRead:
    """One text with what is put around it."""

    side: Side
    prompt: str = ""
    """What is put directly before the text."""

    text: str
    """The whole text, with whatever is cut off it."""

    after: str = ""
    """What is put directly after what is read of the text."""

    read: tuple[int, int] | None
    """Where the characters begin and end that are read, in prompt and text together; None if nobody knows it."""

    lost: int | None = 0
    """Tokens that are cut off; None if nobody knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a model reads at once: a text, or a query and a document together."""

    parts: tuple[TextRead, ...]
    tokens: tuple[str, ...] | None
    """The tokens that are read, special tokens included; None if only the model's own code knows them."""

    ids: tuple[int, ...] | None = None
    """The ids of the tokens; None where a service is sent a text."""

    limit: int | None = None
    """Most tokens that are read; None if there is no limit or nobody knows it."""

    remarks: tuple[str, ...] = field(default=())
    """What else is done with the texts, in words."""

    @property
    def side(self) -> ReadSide:
        """What is read."""
        return self.parts[0].side if len(self.parts) == 1 else "pair"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A term of a bag of words."""

    term: str
    count: int
    weight: float | None
    """Its weight in the query; None for documents, for a term that no document has, and if it is not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of a text, in the order of their first place."""

    side: Side
    text: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a first stage is given of a query and a document."""

    lines: tuple[str, ...]
    """Facts in words."""

    terms: tuple[Terms, ...] = ()
    readings: tuple[Reading, ...] = ()


def place_of(doc_id: str, ranking: Sequence[str], otherwise: str) -> str:
    """Return where a document stands in a ranking of ids, in words; `otherwise` if it isn't there."""
    return f"rank {ranking.index(doc_id) + 1}" if doc_id in ranking else otherwise


class Listener:
    """Gets readings.

    Args:
        most: how many readings of each batch of texts it takes, the first ones; all if left out.
    """

    def __init__(self, most: int | None = None) -> None:
        self.readings: list[Reading] = []
        self._most = most

    def example(self) -> list[dict[str, Any]] | None:
        """Return the first reading of each kind as plain values, to be kept; None if nothing was told.

        Counts stand in place of tokens. A kind is a side with a prompt: a generated text may be read like a document.
        Texts of collections belong to others, so of each text only the beginning is kept, which is enough to see what
        stands before it.
        """
        kinds: dict[object, Reading] = {}
        for reading in self.readings:
            kinds.setdefault((reading.side, *(part.prompt for part in reading.parts)), reading)
        return [_values_of(reading) for reading in [*kinds.values()][:MOST]] or None

    def take(self, readings: Iterable[Reading]) -> None:
        """Take the readings of a batch, in their order. Those beyond `most` are not even made."""
        self.readings += islice(readings, self._most)


_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(most: int | None = None) -> Iterator[Listener]:
    """Have models tell what they read within the block, in this thread.

    Args:
        most: how many readings of each batch of texts are taken, the first ones; all if left out.
    """
    listener = Listener(most)
    before = _LISTENER.set(listener)
    try:
        yield listener
    finally:
        _LISTENER.reset(before)


def tell(readings: Iterable[Reading]) -> None:
    """Tell what is read of a batch of texts, if somebody listens.

    Args:
        readings: made one by one; none is made if nobody listens.
    """
    if listener := _LISTENER.get():
        listener.take(readings)


def beginning(text: str, most: int = CHARACTERS) -> str:
    """Return what is kept of a text."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def _values_of(reading: Reading) -> dict[str, Any]:
    parts = [
        {
            "side": part.side,
            "prompt": part.prompt,
            "text": beginning(part.text),
            "after": part.after,
            "lost": part.lost,
        }
        for part in reading.parts
    ]
    return {
        "tokens": None if reading.tokens is None else len(reading.tokens),
        "limit": reading.limit,
        "remarks": list(reading.remarks),
        "parts": parts,
    }
