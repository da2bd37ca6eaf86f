"""The judged side of an evaluation: positives as columns, and looking ranked rows up in them.

Shape letters: Q queries with a positive, P positives of all of them, W positives that are wanted, N ranked rows,
R queries and D documents of a run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from r2med_ray.errors import DataError
from r2med_ray.evaluation.arrow import IntVector, codes, int_array, int_vector, text_array
from r2med_ray.evaluation.measures import Positives
from r2med_ray.evaluation.ranked import RankedRows, pairs, positions
from r2med_ray.types import Qrels, QueryId


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgements:
    """The positive judgements of a task.

    Args:
        position: index of each of the Q queries that have a positive.
        ideal: the positives in ideal order, each query's best grade first.
        query: int64, shape (P,); the query of each positive.
        doc_ids: P ids; the document of each positive, whether or not it is in the corpus.
        grade: int64, shape (P,); in the order of `doc_ids`.
    """

    position: Mapping[QueryId, int]
    ideal: Positives
    query: IntVector
    doc_ids: pa.StringArray
    grade: IntVector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """What a run ranks, as far as a measure is concerned."""

    positives: Positives
    num_ranked: Mapping[QueryId, int]
    """Every query of the run → how many documents it ranks."""


def judgements(qrels: Qrels) -> Judgements:
    """Return the columns of the qrels.

    Raises:
        DataError: no query has a positive judgement, so there is nothing to average over.
    """
    positives = {
        query_id: found
        for query_id, grades in qrels.items()
        if (found := [(doc_id, grade) for doc_id, grade in grades.items() if grade > 0])
    }
    if not positives:
        raise DataError(f"none of the {len(qrels)} queries of the qrels has a judgement above 0")
    grade_P = np.array([grade for found in positives.values() for _, grade in found], np.int64)
    count_Q = np.array([len(found) for found in positives.values()])
    query_P = np.repeat(np.arange(len(positives)), count_Q)
    ideal = Positives(
        num_queries=len(positives),
        query=query_P,
        rank=positions(query_P, count_Q),
        grade=grade_P[np.lexsort((-grade_P, query_P))],
    )
    return Judgements(
        position={query_id: index for index, query_id in enumerate(positives)},
        ideal=ideal,
        query=query_P,
        doc_ids=text_array(doc_id for found in positives.values() for doc_id, _ in found),
        grade=grade_P,
    )


def find_positives(judged: Judgements, pieces: Iterable[RankedRows]) -> Found:
    """Look ranked rows up in the judgements; no query may be in two pieces."""
    num_ranked: dict[QueryId, int] = {}
    columns = []
    for rows in pieces:
        counts = np.bincount(rows.query, minlength=len(rows.query_ids))
        num_ranked.update(zip(rows.query_ids, counts.tolist(), strict=True))
        columns.append(_lookup(judged, rows))
    query, rank, grade = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.lexsort((rank, query))
    positives = Positives(num_queries=len(judged.position), query=query[order], rank=rank[order], grade=grade[order])
    return Found(positives=positives, num_ranked=num_ranked)


def _lookup(judged: Judgements, rows: RankedRows) -> tuple[IntVector, IntVector, IntVector]:
    """Return query, rank and grade of the positives among the rows."""
    query_R = np.array([judged.position.get(query_id, -1) for query_id in rows.query_ids], np.int64)
    wanted_W = np.flatnonzero(np.isin(judged.query, query_R))
    distinct_ids, code_W = codes(judged.doc_ids.take(int_array(wanted_W)))
    unknown_D = int_array(np.full(len(rows.doc_ids), -1))
    code_D = int_vector(pc.coalesce(pc.index_in(rows.doc_ids, value_set=distinct_ids), unknown_D))
    query_N, code_N = query_R[rows.query], code_D[rows.doc]
    known = np.flatnonzero((query_N >= 0) & (code_N >= 0))
    _, row, positive = np.intersect1d(
        pairs(query_N[known], code_N[known]),
        pairs(judged.query[wanted_W], code_W),
        assume_unique=True,
        return_indices=True,
    )
    return query_N[known[row]], rows.rank[known[row]], judged.grade[wanted_W[positive]]
