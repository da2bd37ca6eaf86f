"""Finds document ids that come twice: first by hash, then by comparing the ids themselves.

Shape letters: N rows of a corpus, M rows that share their id's hash with another.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.errors import DataError
from r2med_ray.storage.ids import Tally
from r2med_ray.types import DocId, Document

Rows: TypeAlias = npt.NDArray[np.int64]
"""Row numbers, or one 64-bit hash per row."""

OnConflict: TypeAlias = Literal["error", "last"]
"""What happens to two texts under one id. `last` keeps the last one, as R2MED's dense search does
(eval_retrieval.py:21-26 at commit 62b7074 fills a dict)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates:
    rows: tuple[int, ...]
    """Rows to skip, ascending: for each id, all its rows but one."""

    warnings: tuple[str, ...]


def find_duplicates(
    hashes_N: Rows,
    read_rows: Callable[[Rows], Iterable[tuple[int, Document]]],
    *,
    on_conflict: OnConflict,
    ids_at_once: int,
    where: Callable[[int], str],
) -> Duplicates:
    """Compare the documents whose ids are equal.

    The first row of an id is kept. With `on_conflict="last"`, a later row with another text is kept in its place.

    Args:
        hashes_N: 64-bit hashes of the ids, shape (N,), in row order.
        read_rows: takes ascending row numbers, and gives (row, document) in that order.
        on_conflict: see `OnConflict`.
        ids_at_once: how many documents are held for comparison.
        where: gives the file and line of a row.

    Raises:
        DataError: an id has two texts and `on_conflict` is "error"; names both lines.
    """
    skipped: list[int] = []
    repeated, replaced = Tally(), Tally()
    for rows_M in _rows_sharing_a_hash(hashes_N, ids_at_once):
        kept: dict[DocId, tuple[int, Document]] = {}
        for row, document in read_rows(rows_M):
            kept_row, kept_document = kept.setdefault(document.doc_id, (row, document))
            if kept_row == row:
                continue
            if document == kept_document:
                repeated.add(document.doc_id)
                skipped.append(row)
            elif on_conflict == "last":
                replaced.add(document.doc_id)
                skipped.append(kept_row)
                kept[document.doc_id] = (row, document)
            else:
                raise DataError(f"{where(row)}: id {document.doc_id!r} has another text than at {where(kept_row)}")
    return Duplicates(
        rows=tuple(sorted(skipped)),
        warnings=(
            *repeated.sentences("rows of the corpus repeat another row and are skipped"),
            *replaced.sentences(
                "rows of the corpus are skipped, because a later one has another text under their id"
            ),
        ),
    )


def _rows_sharing_a_hash(hashes_N: Rows, groups_at_once: int) -> Iterator[Rows]:
    """Yield ascending rows; all rows of one hash come together."""
    sorted_N = np.sort(hashes_N)
    shared = np.unique(sorted_N[1:][sorted_N[1:] == sorted_N[:-1]])
    del sorted_N
    for start in range(0, len(shared), groups_at_once):
        group = shared[start : start + groups_at_once]
        nearest_N = group.take(np.searchsorted(group, hashes_N), mode="clip")
        yield np.flatnonzero(nearest_N == hashes_N)
