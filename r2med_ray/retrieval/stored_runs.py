"""Runs of a first stage as artefacts: the key that names one, and its table.

The key holds what changes the answer: the retriever's inputs, the queries with their expansions, the depth. So a
finished benchmark runs again without an encoder, an index or a server.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.errors import ArtifactError
from r2med_ray.ranking_arrays import RankedQueries, RankingArrays, as_arrays, bounds
from r2med_ray.storage.arrow import codes, int_array, numbers, text_array
from r2med_ray.storage.keys import ArtifactKey, Json, fingerprint, fingerprint_queries
from r2med_ray.types import DocId, Query, QueryId, Run

KIND = "run"
RUN_FILE = "run.parquet"

ROWS_AT_ONCE = 1 << 24
"""Rows of a chunk of a run's table: 2 GiB of ids, the most that a chunk can hold, are 128 bytes for each."""


def run_key(
    inputs: Mapping[str, Json],
    queries: Sequence[Query],
    k: int,
    among: Mapping[QueryId, Sequence[DocId]] | None = None,
) -> ArtifactKey:
    """Return the key of the run that answers these queries.

    Args:
        inputs: everything about corpus and retriever that changes a ranking; a tag changes none.
        queries: what is asked: ids, texts, expansions and excluded documents, in their order.
        k: how many documents are ranked for each query.
        among: the only documents that are ranked; None if all are looked through.
    """
    key = {**inputs, "queries": fingerprint_queries(queries), "k": k}
    excluded = {query.query_id: sorted(query.excluded) for query in queries if query.excluded}
    if excluded:
        key["excluded"] = fingerprint(excluded)
    if among is not None:
        key["among"] = fingerprint({query_id: list(doc_ids) for query_id, doc_ids in among.items()})
    return ArtifactKey(KIND, key)


def run_table(run: Run) -> pa.Table:
    """Return a run as columns query_id, doc_id, score (float32), ranked within each query."""
    ranked = as_arrays(run.rankings)
    arrays = ranked.arrays
    query_H = np.repeat(np.arange(len(ranked)), arrays.lengths)
    return pa.table(
        {
            "query_id": _taken(text_array(ranked), query_H),
            "doc_id": _taken(arrays.doc_ids, arrays.doc),
            "score": pa.FloatArray.from_buffers(pa.float32(), len(query_H), [None, pa.py_buffer(arrays.score)]),
        }
    )


def _taken(texts: pa.StringArray, place_H: npt.NDArray[np.integer]) -> pa.ChunkedArray:
    starts = range(0, len(place_H), ROWS_AT_ONCE)
    places = (place_H[start : start + ROWS_AT_ONCE].astype(np.int64) for start in starts)
    return pa.chunked_array([texts.take(int_array(place)) for place in places], pa.string())


def run_from_table(tag: str, queries: Sequence[Query], table: pa.Table) -> Run:
    """Return the run of a table of `run_table`; a query without rows has an empty ranking.

    Raises:
        ArtifactError: the table answers a query that was not asked.
    """
    place = {query.query_id: place for place, query in enumerate(queries)}
    found, code_H = codes(table["query_id"])
    for query_id in found.to_pylist():
        if query_id not in place:
            raise ArtifactError(f"run {tag!r}: the stored run answers {query_id!r}, which was not asked")
    query_H = np.array([place[query_id] for query_id in found.to_pylist()], np.int64)[code_H]
    order_H = np.argsort(query_H, kind="stable")
    doc_ids, doc_H = codes(table["doc_id"])
    score_H = numbers(table["score"]).astype(np.float32, copy=False)
    lengths_Q = np.bincount(query_H, minlength=len(place))
    arrays = RankingArrays(doc_ids, doc_H[order_H].astype(np.int32), score_H[order_H], bounds(lengths_Q))
    return Run(tag=tag, rankings=RankedQueries(place, arrays))
