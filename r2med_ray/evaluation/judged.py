"""The judged side of an evaluation, as columns that ranked rows are looked up in.

Shape letters: Q queries with a positive, P positives of all of them, H positives found, N ranked rows,
R queries and D documents of a run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from r2med_ray.errors import DataError
from r2med_ray.evaluation.measures import IntVector, Positives
from r2med_ray.evaluation.ranked import RankedRows, text_array
from r2med_ray.types import Qrels, QueryId


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgements:
    """The positive judgements of a task.

    Args:
        position: index of each of the Q queries that have a positive.
        ideal: all positives, each query's best grade first; positives that are in no corpus count too.
        doc_ids: the distinct judged-positive documents.
        pair_P: int64, shape (P,), sorted; query and document of each positive as one number.
        grade_P: int64, shape (P,), in the order of `pair_P`.
    """

    position: dict[QueryId, int]
    ideal: Positives
    doc_ids: pa.StringArray
    pair_P: IntVector
    grade_P: IntVector


def judgements(qrels: Qrels) -> Judgements:
    """Return the columns of the qrels.

    Raises:
        DataError: no query has a positive judgement, so there is nothing to average over.
    """
    positives = {
        query_id: [(doc_id, grade) for doc_id, grade in grades.items() if grade > 0]
        for query_id, grades in qrels.items()
    }
    positives = {query_id: found for query_id, found in positives.items() if found}
    if not positives:
        raise DataError(f"none of the {len(qrels)} queries of the qrels has a judgement above 0")
    documents = text_array(doc_id for found in positives.values() for doc_id, _ in found).dictionary_encode()
    grade_P = np.array([grade for found in positives.values() for _, grade in found], np.int64)
    query_P = np.repeat(np.arange(len(positives)), [len(found) for found in positives.values()])
    pair_P = _pairs(query_P, np.from_dlpack(documents.indices))
    by_pair_P = np.argsort(pair_P)
    return Judgements(
        position={query_id: index for index, query_id in enumerate(positives)},
        ideal=_ideal(query_P, grade_P),
        doc_ids=documents.dictionary,
        pair_P=pair_P[by_pair_P],
        grade_P=grade_P[by_pair_P],
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """What a run ranks, as far as a measure is concerned."""

    positives: Positives
    num_ranked: Mapping[QueryId, int]
    """Every query of the run → how many documents it ranks."""


def find_positives(judged: Judgements, pieces: Iterable[RankedRows]) -> Found:
    """Look the ranked rows up in the judgements; no query may be in two pieces."""
    num_ranked: dict[QueryId, int] = {}
    columns = []
    for rows in pieces:
        num_rows_R = np.bincount(rows.query_N, minlength=len(rows.query_ids))
        num_ranked.update(zip(rows.query_ids, num_rows_R.tolist(), strict=True))
        columns.append(_lookup(judged, rows))
    query_H, rank_H, grade_H = (np.concatenate(column) for column in zip(*columns, strict=True))
    order_H = np.lexsort((rank_H, query_H))
    positives = Positives(
        num_queries=len(judged.position),
        query_H=query_H[order_H],
        rank_H=rank_H[order_H],
        grade_H=grade_H[order_H],
    )
    return Found(positives=positives, num_ranked=num_ranked)


def _lookup(judged: Judgements, rows: RankedRows) -> tuple[IntVector, IntVector, IntVector]:
    """Return query, rank and grade of the positives among the rows."""
    query_R = np.array([judged.position.get(query_id, -1) for query_id in rows.query_ids], np.int64)
    num_judged = len(judged.doc_ids)
    doc_D = np.from_dlpack(pa.concat_arrays([judged.doc_ids, rows.doc_ids]).dictionary_encode().indices)[num_judged:]
    query_N, doc_N = query_R[rows.query_N], doc_D[rows.doc_N]
    known = np.flatnonzero((query_N >= 0) & (doc_N < num_judged))
    pairs = _pairs(query_N[known], doc_N[known])
    place = np.minimum(np.searchsorted(judged.pair_P, pairs), len(judged.pair_P) - 1)
    positive = judged.pair_P[place] == pairs
    return query_N[known[positive]], rows.rank_N[known[positive]], judged.grade_P[place[positive]]


def _pairs(query: IntVector, doc: IntVector) -> IntVector:
    return query.astype(np.int64) << 32 | doc


def _ideal(query_P: IntVector, grade_P: IntVector) -> Positives:
    order_P = np.lexsort((-grade_P, query_P))
    counts = np.bincount(query_P)
    rank_P = np.arange(1, len(query_P) + 1) - (np.cumsum(counts) - counts)[query_P]
    return Positives(num_queries=len(counts), query_H=query_P, rank_H=rank_P, grade_H=grade_P[order_P])
