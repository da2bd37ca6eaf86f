"""What a Nano set says of itself: its safeguards, and how long its texts are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from r2med_ray.errors import DataError
from r2med_ray.storage.parquet import read_rows

SAFEGUARD_RANK = 101
"""The rank of a positive that was added to a list of `reranking_hybrid` because fusion found none before."""


def count_safeguards(ranked_lists: Mapping[str, Path]) -> dict[str, int]:
    """Return the count `safeguards`: queries whose list has a positive at rank 101 that fusion did not find.

    Args:
        ranked_lists: name → file of the ranked lists. Without `reranking_hybrid` the result is empty.

    Raises:
        DataError: a row has no list.
    """
    if "reranking_hybrid" not in ranked_lists:
        return {}
    longer = 0
    for row in read_rows(ranked_lists["reranking_hybrid"]):
        doc_ids = row.values.get("corpus-ids")
        if not isinstance(doc_ids, list):
            raise DataError(f"{row.where}: corpus-ids is {doc_ids!r:.80}; expected a list")
        longer += len(doc_ids) >= SAFEGUARD_RANK
    return {"safeguards": longer}


def safeguard_sentences(counts: Mapping[str, int]) -> list[str]:
    """Return the warning that a reader of reranking figures needs; an empty list if there are no safeguards."""
    if not counts.get("safeguards"):
        return []
    return [
        f"{counts['safeguards']} of {counts['queries']} lists of reranking_hybrid carry a positive at rank 101 that "
        "fusion did not find; see `safeguard`"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterCounts:
    """Lengths of texts in code points, in the form that HAKARI-Bench states them for every Nano set."""

    shortest: int
    mean: float
    median: float
    longest: int

    @classmethod
    def of(cls, texts: Iterable[str]) -> "CharacterCounts":
        """Return the counts of one or more texts."""
        lengths = [len(text) for text in texts]
        return cls(shortest=min(lengths), mean=fmean(lengths), median=median(lengths), longest=max(lengths))
