"""A passage on its way into a pack: what it was planned as, how it was written, and what each check said."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self

from r2med_ray.storage.keys import fingerprint
from r2med_ray.types import CONTROL, DocId, Document, QueryId

RELEASED = "released"
FOUND_POSITIVE = "found positive"
"""What the verdict on a passage begins with that supports its query after all."""


def seed_of(*parts: str | int) -> int:
    """Return a number of 31 bits that depends on the parts alone. Every service takes such a seed."""
    return int(fingerprint(list(parts))[:8], 16) >> 1


class Slot(NamedTuple):
    """A place in the plan: one hard negative that a query should get."""

    query_id: QueryId
    positive_id: DocId
    """The query's positive that it is made from."""

    kind: str
    round: int
    number: int
    """From 0 on, within the query and the round."""

    @property
    def name(self) -> str:
        return f"{self.query_id} {self.round}.{self.number}"


class Check(NamedTuple):
    """What one check said of a passage."""

    name: str
    value: str | float
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One attempt to fill a slot."""

    slot: Slot
    attempt: int
    seed: int
    hard_query: str = ""
    anchors: tuple[DocId, ...] = ()
    """The documents that the writer was shown as examples of style."""

    shortened: bool = False
    """Whether the prompt left them out, because it was too long for the model."""

    text: str = ""
    checks: tuple[Check, ...] = ()
    verdict: str = ""
    """Empty as long as nothing speaks against it; then `released`, or why it isn't, e.g. `found positive: judge`."""

    @property
    def name(self) -> str:
        return f"{self.slot.name}, attempt {self.attempt}"

    @property
    def doc_id(self) -> DocId:
        """The digest of kind and text, so that the same passage has the same id in every round."""
        return passage_id(self.slot.kind, self.text)

    @property
    def document(self) -> Document:
        """The text as a document, whose id is the draft's own."""
        return Document(
            doc_id=f"{self.slot.query_id}:{self.slot.round}.{self.slot.number}.{self.attempt}", text=self.text
        )

    def checked(self, name: str, value: str | float, passed: bool, verdict: str = "") -> Self:
        """Return the draft with one more check. If it isn't passed, the verdict is `verdict`, or the check's name."""
        said = "" if passed else verdict or name
        rounded = round(value, 6) if isinstance(value, float) else value
        return replace(self, checks=(*self.checks, Check(name, rounded, passed)), verdict=said)

    def record(self) -> dict[str, Any]:
        """Return the draft as plain values."""
        values = asdict(self) | {"slot": self.slot._asdict(), "checks": [check._asdict() for check in self.checks]}
        slot = values.pop("slot")
        return {"doc_id": self.doc_id if self.text else None, **slot, **values}


def passage_id(kind: str, text: str) -> DocId:
    """Return an id that is a digest of kind and text."""
    return f"{CONTROL if kind.startswith(CONTROL) else 'hn'}-{fingerprint([kind, text])[:16]}"


def open_of(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts that nothing speaks against."""
    return [draft for draft in drafts if not draft.verdict]
