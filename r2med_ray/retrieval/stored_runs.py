"""Runs of a first stage as artefacts: the key that names one, and its table.

The key holds what changes the answer: the retriever's inputs, the queries with their expansions, the depth. So a
finished benchmark runs again without an encoder, an index or a server.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from r2med_ray.errors import ArtifactError
from r2med_ray.storage.keys import ArtifactKey, Json, fingerprint, fingerprint_queries
from r2med_ray.types import DocId, Query, QueryId, Run, ScoredDoc

KIND = "run"
RUN_FILE = "run.parquet"


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
    rows = [(query_id, *hit) for query_id, ranking in run.rankings.items() for hit in ranking]
    query_ids, doc_ids, scores = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "query_id": pa.array(query_ids, pa.string()),
            "doc_id": pa.array(doc_ids, pa.string()),
            "score": pa.array(scores, pa.float32()),
        }
    )


def run_from_table(tag: str, queries: Sequence[Query], table: pa.Table) -> Run:
    """Return the run of a table of `run_table`; a query without rows has an empty ranking.

    Raises:
        ArtifactError: the table answers a query that was not asked.
    """
    hits: dict[QueryId, list[ScoredDoc]] = {query.query_id: [] for query in queries}
    columns = (table[name].to_pylist() for name in ("query_id", "doc_id", "score"))
    for query_id, doc_id, score in zip(*columns, strict=True):
        if query_id not in hits:
            raise ArtifactError(f"run {tag!r}: the stored run answers {query_id!r}, which was not asked")
        hits[query_id].append(ScoredDoc(doc_id, score))
    return Run(tag=tag, rankings={query_id: tuple(ranking) for query_id, ranking in hits.items()})
