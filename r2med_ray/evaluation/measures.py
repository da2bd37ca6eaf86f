"""Measures of ranked retrieval, defined as in trec_eval and spelled as in ir_measures.

A measure looks only at the positives: at which rank a run has each, and which ones there are to find. Both sides
have one form, `Positives`; the judged side in ideal order is what nDCG divides by. Definitions: trec_eval 9
(github.com/usnistgov/trec_eval), files m_ndcg_cut.c, m_map_cut.c, m_recall.c, m_P.c, m_recip_rank.c and m_success.c;
nDCG: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002. A grade of 0 or below
gains nothing, a grade above 0 gains itself (linear gain).

Shape letters: Q queries, H positives of all queries.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.arrow import IntVector
from r2med_ray.evaluation.ranked import positions
from r2med_ray.settings.registry import closest, nearest

DoubleVector: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Positives:
    """Ranked positive documents of Q queries, sorted by query and then by rank.

    Args:
        num_queries: Q.
        query: int64, shape (H,); the query of each, 0 to Q - 1.
        rank: int64, shape (H,); 1 is the top of the ranking.
        grade: int64 above 0, shape (H,).
    """

    num_queries: int
    query: IntVector
    rank: IntVector
    grade: IntVector

    def sums(self, weight_H: DoubleVector | npt.NDArray[np.bool_]) -> DoubleVector:
        """Return float64 of shape (Q,): the weights of each query, added up in rank order."""
        return np.asarray(np.bincount(self.query, weights=weight_H, minlength=self.num_queries), np.float64)

    @cached_property
    def counts(self) -> IntVector:
        """int64, shape (Q,): how many positives each query has here."""
        return np.bincount(self.query, minlength=self.num_queries)

    @cached_property
    def nth(self) -> IntVector:
        """int64, shape (H,): 1 for the first positive of a query, 2 for the second, and so on."""
        return positions(self.query, self.counts)


def _gain(positives: Positives, cutoff: float) -> DoubleVector:
    return positives.sums(positives.grade / np.log2(positives.rank + 1) * (positives.rank <= cutoff))


def _ndcg(found: Positives, judged: Positives, cutoff: float) -> DoubleVector:
    return _gain(found, cutoff) / _gain(judged, cutoff)


def _average_precision(found: Positives, judged: Positives, cutoff: float) -> DoubleVector:
    return found.sums(found.nth / found.rank * (found.rank <= cutoff)) / judged.counts


def _recall(found: Positives, judged: Positives, cutoff: float) -> DoubleVector:
    return found.sums(found.rank <= cutoff) / judged.counts


def _precision(found: Positives, judged: Positives, cutoff: float) -> DoubleVector:
    return found.sums(found.rank <= cutoff) / cutoff


def _reciprocal_rank(found: Positives, judged: Positives, cutoff: float) -> DoubleVector:
    return found.sums(1 / found.rank * ((found.nth == 1) & (found.rank <= cutoff)))


def _success(found: Positives, judged: Positives, cutoff: float) -> DoubleVector:
    return (found.sums(found.rank <= cutoff) > 0).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Definition:
    values: Callable[[Positives, Positives, float], DoubleVector]
    needs_cutoff: bool
    other_spellings: tuple[str, ...]


_DEFINITIONS = {
    "nDCG": _Definition(values=_ndcg, needs_cutoff=False, other_spellings=("ndcg_cut",)),
    "AP": _Definition(values=_average_precision, needs_cutoff=False, other_spellings=("map", "map_cut")),
    "R": _Definition(values=_recall, needs_cutoff=True, other_spellings=("recall",)),
    "P": _Definition(values=_precision, needs_cutoff=True, other_spellings=("precision",)),
    "RR": _Definition(values=_reciprocal_rank, needs_cutoff=False, other_spellings=("mrr", "recip_rank")),
    "Success": _Definition(values=_success, needs_cutoff=True, other_spellings=("hit", "hit_rate", "hits")),
}
_CANONICAL = {
    spelling.lower(): name
    for name, definition in _DEFINITIONS.items()
    for spelling in (name, *definition.other_spellings)
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure, e.g. `Measure("nDCG", 10)`; as text `nDCG@10`, which reads back as the same measure.

    Args:
        name: `nDCG`, `AP`, `R`, `P`, `RR` or `Success`.
        cutoff: ranks that are looked at; None for the whole ranking (`nDCG`, `AP`, `RR`).

    Raises:
        ConfigError: there is no such measure, or its cut-off is missing or below 1.
    """

    name: str
    cutoff: int | None = None

    def __post_init__(self) -> None:
        if self.name not in _DEFINITIONS:
            raise ConfigError(f"unknown measure {self.name!r}.{nearest(self.name, _DEFINITIONS)} Known: {_known()}")
        if self.cutoff is None and _DEFINITIONS[self.name].needs_cutoff:
            raise ConfigError(f"measure {self.name!r} needs a cut-off, e.g. '{self.name}@10'")
        if self.cutoff is not None and self.cutoff < 1:
            raise ConfigError(f"measure '{self}': the cut-off must be at least 1")

    @classmethod
    def parse(cls, text: str) -> "Measure":
        """Read a measure as ir_measures writes it, e.g. `R@100`.

        Raises:
            ConfigError: the text is no measure; the message gives the nearest one.
        """
        match = re.fullmatch(r"([A-Za-z]+)(?:@([0-9]+))?", text)
        if match and match[1] in _DEFINITIONS:
            return cls(match[1], int(match[2]) if match[2] else None)
        raise ConfigError(f"unknown measure {text!r}.{_hint(text)} Known: {_known()}")

    def __str__(self) -> str:
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"

    def values(self, found: Positives, judged: Positives) -> DoubleVector:
        """Return float64 of shape (Q,): the value of each query.

        Args:
            found: the positives that the run ranks.
            judged: all positives of the same Q queries in ideal order, at least one per query.
        """
        return _DEFINITIONS[self.name].values(found, judged, self.cutoff or np.inf)


def _known() -> str:
    return ", ".join(f"{name}@K" if row.needs_cutoff else f"{name}, {name}@K" for name, row in _DEFINITIONS.items())


def _hint(text: str) -> str:
    match = re.fullmatch(r"([A-Za-z_]+?)(?:(?:_at_|[@._ -]?)([0-9]+))?", text)
    close = closest(match[1], _CANONICAL) if match else None
    if match is None or close is None:
        return nearest(text, [f"{name}@10" for name in _DEFINITIONS])
    name = _CANONICAL[close]
    cutoff = match[2] or ("10" if _DEFINITIONS[name].needs_cutoff else None)
    return f" Did you mean '{name}@{cutoff}'?" if cutoff else f" Did you mean '{name}'?"
