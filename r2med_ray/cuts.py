"""What was cut off the texts that a model read: counts, which are stored beside what was made of the texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self, TypeAlias, TypeGuard, get_args

import numpy as np

Side: TypeAlias = Literal["query", "document"]
Unit: TypeAlias = Literal["tokens", "words", "characters"]

NO_LIMIT = 10**9
"""A limit from here on is none: transformers writes 10^30 for a tokenizer without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """What was cut off the texts of one side."""

    texts: int = 0
    """Texts that were read; for a reranker, the texts of this side in all pairs."""

    cut: int = 0
    """How many of them were cut."""

    tokens: int = 0
    """Tokens of all texts before they were cut, with prompts and special tokens."""

    lost: int = 0
    """How many of these tokens were cut off."""

    lengths: tuple[int, ...] = ()
    """Most tokens that are read of a text, as tokenizer, positions and checkpoint allow: several if texts of one side
    were read with several limits, none if there is no limit."""

    unit: Unit = "tokens"
    """What is counted: a language model may be shown the first words or characters of a passage."""

    def __add__(self, other: "Cuts") -> "Cuts":
        return Cuts(
            texts=self.texts + other.texts,
            cut=self.cut + other.cut,
            tokens=self.tokens + other.tokens,
            lost=self.lost + other.lost,
            lengths=tuple(sorted({*self.lengths, *other.lengths})),
            unit=other.unit,
        )

    @property
    def share_cut(self) -> float:
        """Share of the texts that were cut, 0 to 1."""
        return self.cut / self.texts if self.texts else 0.0

    @property
    def share_lost(self) -> float:
        """Share of the tokens that were cut off, 0 to 1."""
        return self.lost / self.tokens if self.tokens else 0.0


SideCuts: TypeAlias = Mapping[Side, Cuts]
"""What was cut on each side that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCuts:
    """What was cut for one part of a system: for a retriever, for a reranker, or for a language model that is shown
    passages before it rewrites. None is a count that nobody knows."""

    part: str
    """The retriever's, the reranker's or the language model's name."""

    of: Literal["texts", "pairs", "prompts"]
    """Whether texts were read one by one, a query and a document together, so that each counts once per pair, or in
    the prompts of a rewriter, so that each counts once per prompt that was answered."""

    query: Cuts | None = None
    """What was cut off the queries and off the texts that were generated for them."""

    document: Cuts | None = None
    queries: int = 0
    """Queries that the part was asked."""

    same: int | None = None
    """How many of them have the same vector as a query with another text; None where no vectors are compared."""

    encoder: str = ""
    """The encoder that read the texts, where the part is named otherwise: after its approximate index, too."""

    @property
    def reader(self) -> str:
        """The name of the model that read the texts. Systems with the same encoder and other indexes share it."""
        return self.encoder or self.part

    @classmethod
    def of_sides(cls, part: str, of: Literal["pairs", "prompts"], cuts: SideCuts | None) -> Self:
        """Return counts of both sides; `cuts` is None if they aren't known, and empty if no text was read."""
        nothing: SideCuts = {"query": Cuts(), "document": Cuts()}
        known: SideCuts = {} if cuts is None else cuts or nothing
        return cls(part=part, of=of, query=known.get("query"), document=known.get("document"))


class CutCounter:
    """Counts what is cut while a model reads. `unit` is what is counted."""

    def __init__(self, unit: Unit = "tokens") -> None:
        self._unit: Unit = unit
        self._cuts: dict[Side, Cuts] = {}

    def note(
        self, side: Side, kept: Sequence[int], lost: Sequence[int], length: int, times: Sequence[int] | None = None
    ) -> None:
        """Count some texts.

        Args:
            side: what the texts are.
            kept: tokens, or whatever the unit is, that are read of each text.
            lost: those that were cut off each text.
            length: most of them that are read of a text.
            times: how often each text counts; once if left out.
        """
        # One array, so that lists of unequal lengths are refused.
        read_N, gone_N, times_N = np.array([kept, lost, [1] * len(kept) if times is None else times], np.int64)
        self._cuts[side] = self._cuts.get(side, Cuts()) + Cuts(
            texts=int(times_N.sum()),
            cut=int(times_N[gone_N > 0].sum()),
            tokens=int((read_N + gone_N) @ times_N),
            lost=int(gone_N @ times_N),
            lengths=(length,) if length < NO_LIMIT else (),
            unit=self._unit,
        )

    def note_first(
        self, side: Side, sizes: Iterable[int], most: int = NO_LIMIT, times: Sequence[int] | None = None
    ) -> None:
        """Count texts of some sizes, of which no more than the first `most` tokens or words are read; see `note`."""
        sizes = list(sizes)
        self.note(side, [min(most, size) for size in sizes], [max(0, size - most) for size in sizes], most, times)

    def take(self) -> dict[Side, Cuts]:
        """Return what was counted since the last call."""
        taken, self._cuts = self._cuts, {}
        return taken


def sum_of(cuts: Iterable[Cuts | None]) -> Cuts | None:
    """Return the sum of counts; None if one of them isn't known."""
    total = Cuts()
    for each in cuts:
        if each is None:
            return None
        total = total + each
    return total


def sum_of_sides(cuts: Iterable[SideCuts | None]) -> SideCuts | None:
    """Return the sums of the counts of each side; None if some of them aren't known."""
    total: dict[Side, Cuts] = {}
    for each in cuts:
        if each is None:
            return None
        for side, of_side in each.items():
            total[side] = total.get(side, Cuts()) + of_side
    return total


def together(parts: Iterable[PartCuts]) -> tuple[PartCuts, ...]:
    """Add up the queries of all searches of one retriever in one corpus, whose documents count once."""
    found: dict[tuple[str, Cuts | None], PartCuts] = {}
    for each in parts:
        name = each.part, each.document
        before = found.get(name)
        if before is None:
            found[name] = each
            continue
        same = None if before.same is None or each.same is None else before.same + each.same
        queries, query = before.queries + each.queries, sum_of([before.query, each.query])
        found[name] = replace(each, query=query, queries=queries, same=same)
    return tuple(found.values())


def are_known_sides(cuts: object) -> TypeGuard[SideCuts]:
    """Return whether a value that a user's class has made is counts of sides."""
    return isinstance(cuts, Mapping) and all(
        side in get_args(Side) and isinstance(each, Cuts) for side, each in cuts.items()
    )


def to_json(cuts: Cuts | None) -> dict[str, Any] | None:
    """Return counts as plain values, for an artefact."""
    return None if cuts is None else {**asdict(cuts), "lengths": list(cuts.lengths)}


def from_json(values: Mapping[str, Any] | None) -> Cuts | None:
    """Return the counts of `to_json`; None if there are none."""
    return None if values is None else Cuts(**{**values, "lengths": tuple(values["lengths"])})
