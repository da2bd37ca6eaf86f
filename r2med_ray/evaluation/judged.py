"""Judgements as columns, and the look-up of ranked rows in them.

Shape letters: Q queries with a positive, J judgements that are looked up, W judgements that one piece of a run can
need, N ranked rows, R queries and D documents of a run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from r2med_ray.evaluation.ranked import RankedRows, pairs, positions
from r2med_ray.evaluation.ranks import GradedRanks, Rankings
from r2med_ray.storage.arrow import IntVector, codes, int_array, int_vector, text_array
from r2med_ray.storage.qrels import GREATEST_GRADE, whole_grade
from r2med_ray.types import Qrels, QueryId


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgements:
    """The judgements of a task that its measures look at.

    Args:
        position: query_id → index, 0 to Q - 1, of each query that has a positive.
        ideal: all positives in ideal order: for each query the best grade first.
        query: int64, shape (J,); the index of the query of each judgement.
        doc_ids: J ids; the document of each judgement, whether or not it is in the corpus.
        grade: int64, shape (J,); the grade of each judgement.
        positives_only: whether only the positive judgements are here.
    """

    position: Mapping[QueryId, int]
    ideal: GradedRanks
    query: IntVector
    doc_ids: pa.StringArray
    grade: IntVector
    positives_only: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """The rankings of a run, as measures see them, and the number of documents that each query ranks."""

    rankings: Rankings
    num_ranked: Mapping[QueryId, int]
    """query_id → number of ranked documents, for every query of the run."""


def judgements(qrels: Qrels, *, positives_only: bool) -> Judgements:
    """Return the judgements of the queries that have a positive, or only their positive judgements.

    Raises:
        DataError: a grade is no whole number.
    """
    qrels = _whole_grades(qrels)
    wanted = {
        query_id: [(doc_id, grade) for doc_id, grade in grades.items() if grade > 0 or not positives_only]
        for query_id, grades in qrels.items()
        if any(grade > 0 for grade in grades.values())
    }
    grade_J = np.array([grade for judged in wanted.values() for _, grade in judged], np.int64)
    query_J = np.repeat(np.arange(len(wanted)), np.array([len(judged) for judged in wanted.values()], np.int64))
    return Judgements(
        position={query_id: index for index, query_id in enumerate(wanted)},
        ideal=_ideal(query_J[grade_J > 0], grade_J[grade_J > 0], len(wanted)),
        query=query_J,
        doc_ids=text_array(doc_id for judged in wanted.values() for doc_id, _ in judged),
        grade=grade_J,
        positives_only=positives_only,
    )


def find_judged(judged: Judgements, pieces: Iterable[RankedRows]) -> Found:
    """Look ranked rows up in the judgements. A query must be in one piece only."""
    num_ranked: dict[QueryId, int] = {}
    columns = []
    for rows in pieces:
        counts = np.bincount(rows.query, minlength=len(rows.query_ids))
        num_ranked.update(zip(rows.query_ids, counts.tolist(), strict=True))
        columns.append(_lookup(judged, rows))
    query, rank, grade = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.lexsort((rank, query))
    rankings = Rankings(
        found=GradedRanks(num_queries=len(judged.position), query=query[order], rank=rank[order], grade=grade[order]),
        ideal=judged.ideal,
        num_ranked=np.array([num_ranked.get(query_id, 0) for query_id in judged.position], np.int64),
        judged_query=judged.query,
        judged_grade=judged.grade,
        positives_only=judged.positives_only,
    )
    return Found(rankings=rankings, num_ranked=num_ranked)


def _whole_grades(qrels: Qrels) -> Qrels:
    """Return the judgements with grades that `storage.qrels` accepts. numpy and trec_eval would cut 1.5 to 1."""
    checked = dict(qrels)
    for query_id, grades in qrels.items():
        values = grades.values()
        if not {int}.issuperset(map(type, values)) or max(map(abs, values), default=0) > GREATEST_GRADE:
            checked[query_id] = {
                doc_id: whole_grade(grade, f"evaluate: query {query_id!r}, document {doc_id!r}")
                for doc_id, grade in grades.items()
            }
    return checked


def _ideal(query: IntVector, grade: IntVector, num_queries: int) -> GradedRanks:
    """Return positives with the best grade of each query first. The positives must be given sorted by query."""
    return GradedRanks(
        num_queries=num_queries,
        query=query,
        rank=positions(query, np.bincount(query, minlength=num_queries)),
        grade=grade[np.lexsort((-grade, query))],
    )


def _lookup(judged: Judgements, rows: RankedRows) -> tuple[IntVector, IntVector, IntVector]:
    """Return query, rank and grade of the judged documents among the rows."""
    query_R = np.array([judged.position.get(query_id, -1) for query_id in rows.query_ids], np.int64)
    wanted_W = np.flatnonzero(np.isin(judged.query, query_R))
    distinct_ids, code_W = codes(judged.doc_ids.take(int_array(wanted_W)))
    unknown_D = int_array(np.full(len(rows.doc_ids), -1))
    code_D = int_vector(pc.coalesce(pc.index_in(rows.doc_ids, value_set=distinct_ids), unknown_D))
    query_N, code_N = query_R.take(rows.query), code_D.take(rows.doc)
    known = np.flatnonzero((query_N >= 0) & (code_N >= 0))
    _, row, judgement = np.intersect1d(
        pairs(query_N[known], code_N[known]),
        pairs(judged.query[wanted_W], code_W),
        assume_unique=True,
        return_indices=True,
    )
    return query_N[known[row]], rows.rank[known[row]], judged.grade[wanted_W[judgement]]
