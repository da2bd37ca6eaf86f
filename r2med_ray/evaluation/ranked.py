"""A run as columns: its queries are whole, and the documents of a query have the order of `ranking`.

A run in memory and a run file both become `RankedRows`, so all evaluation is computed in one way.

Shape letters: Q queries, N rows (one per ranked document), D distinct documents, T rows that tie with another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from r2med_ray.errors import DataError
from r2med_ray.ranking_arrays import RankedQueries, RankingArrays, as_arrays, bounds
from r2med_ray.storage.arrow import IntVector, int_array, int_vector
from r2med_ray.types import FloatVector, QueryId, Run

QUERIES_AT_ONCE = 1000
"""Queries of a run that are measured together."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankedRows:
    """Rankings of Q queries as N rows, sorted by query and then best first.

    Args:
        query_ids: Q ids; a query may have no rows.
        doc_ids: D ids.
        query: int64, shape (N,); row n answers `query_ids[query[n]]`.
        doc: int64, shape (N,); row n ranks `doc_ids[doc[n]]`.
        score: float32, shape (N,).
        rank: int64, shape (N,); 1 is the top.
    """

    query_ids: Sequence[QueryId]
    doc_ids: pa.StringArray
    query: IntVector
    doc: IntVector
    score: FloatVector
    rank: IntVector

    def to_rankings(self) -> RankedQueries:
        """Return the same rankings by query; queries without rows are left out."""
        count_Q = np.bincount(self.query, minlength=len(self.query_ids))
        answered = np.flatnonzero(count_Q)
        arrays = RankingArrays(self.doc_ids, self.doc.astype(np.int32), self.score, bounds(count_Q[answered]))
        return RankedQueries([self.query_ids[query] for query in answered.tolist()], arrays)


def rows_of_run(run: Run) -> Iterator[RankedRows]:
    """Yield the columns of a run, `QUERIES_AT_ONCE` queries at a time. Rankings of the run may be in any order.

    Raises:
        DataError: a score is not finite as float32, or a query ranks a document twice.
    """
    return (_rows(run.tag, part) for part in as_arrays(run.rankings).parts(QUERIES_AT_ONCE))


def _rows(tag: str, part: RankedQueries) -> RankedRows:
    query_ids, doc_ids, score_N = list(part), part.arrays.doc_ids, part.arrays.score
    query_N = np.repeat(np.arange(len(part)), part.arrays.lengths)
    doc_N = part.arrays.doc.astype(np.int64)

    def where(row: int) -> str:
        document = doc_ids[doc_N[row]].as_py()
        return f"evaluate: run {tag!r}, query {query_ids[query_N[row]]!r}, document {document!r}"

    for row in np.flatnonzero(~np.isfinite(score_N)).tolist():
        raise DataError(f"{where(row)} has score {score_N[row]}; scores must be finite numbers")
    if repeated := repeated_rows(query_N, doc_N):
        raise DataError(f"{where(repeated[0])} is ranked twice")
    return ranked_rows(query_ids, query_N, doc_ids, doc_N, score_N)


def ranked_rows(
    query_ids: Sequence[QueryId], query_N: IntVector, doc_ids: pa.StringArray, doc_N: IntVector, score_N: FloatVector
) -> RankedRows:
    """Sort rows into ranking order. No query may have a document twice, and every score must be finite.

    Rows are compared by one 64-bit key: the query is its upper half, the descending score its lower half. Ids are
    compared only within ties.
    """
    key_N = query_N.astype(np.uint64) << np.uint64(32) | _descending(score_N)
    order_N = np.arange(len(key_N)) if (key_N[1:] >= key_N[:-1]).all() else np.argsort(key_N)  # most runs are sorted
    key_N = key_N.take(order_N)  # faster than indexing
    same_N = key_N[1:] == key_N[:-1]
    tied_T = np.flatnonzero(np.append(same_N, False) | np.append(False, same_N))
    if len(tied_T):
        candidates_T = order_N[tied_T]
        by_id_T = np.lexsort((-_place_of_id(doc_ids, doc_N[candidates_T]), key_N[tied_T]))
        order_N[tied_T] = candidates_T[by_id_T]
    query_N = query_N.take(order_N)
    count_Q = np.bincount(query_N, minlength=len(query_ids))
    return RankedRows(
        query_ids=query_ids,
        doc_ids=doc_ids,
        query=query_N,
        doc=doc_N.take(order_N),
        score=score_N.take(order_N),
        rank=positions(query_N, count_Q),
    )


def positions(query_N: IntVector, count_Q: IntVector) -> IntVector:
    """Return int64 of shape (N,): 1 for the first row of each query, 2 for the second, ... Rows must be sorted."""
    start_Q = np.cumsum(count_Q) - count_Q
    return np.arange(1, len(query_N) + 1) - start_Q.take(query_N)


def pairs(query_N: IntVector, doc_N: IntVector) -> IntVector:
    """Return one number per row. Two rows have the same number if they have the same query and document."""
    return query_N << 32 | doc_N


def repeated_rows(query_N: IntVector, doc_N: IntVector) -> tuple[int, int] | None:
    """Return the indexes of two rows, the earlier first, that have the same query and document; None if none have."""
    pair_N = pairs(query_N, doc_N)
    sorted_N = np.sort(pair_N)
    repeated = sorted_N[1:][sorted_N[1:] == sorted_N[:-1]]
    if not len(repeated):
        return None
    first, second = np.flatnonzero(pair_N == repeated[0])[:2].tolist()
    return first, second


def _descending(score_N: FloatVector) -> npt.NDArray[np.uint64]:
    """Return one 32-bit integer per score. A lower score has a larger integer; equal scores have equal integers."""
    bits_N = (score_N + np.float32(0)).view(np.uint32)  # + 0 makes -0 a 0
    ascending_N = np.where(bits_N >> 31, ~bits_N, bits_N | np.uint32(1 << 31))
    return (~ascending_N).astype(np.uint64)


def _place_of_id(doc_ids: pa.StringArray, doc_T: IntVector) -> IntVector:
    """Return int64 of shape (T,): numbers that sort the documents as their ids do by code point.

    Arrow sorts ids by their UTF-8 bytes, which is the same order.
    """
    place_T = np.empty(len(doc_T), np.int64)
    place_T[int_vector(pc.sort_indices(doc_ids.take(int_array(doc_T))))] = np.arange(len(doc_T))
    return place_T
