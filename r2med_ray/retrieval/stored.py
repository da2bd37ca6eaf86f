"""Runs and reranking scores as artefacts: what was retrieved or scored once is read again.

The key holds what changes the answer: the retriever's inputs, the queries with their expansions, the depth. So a
finished benchmark runs again without an encoder, an index or a server.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa

from r2med_ray.errors import ArtifactError
from r2med_ray.protocols import Candidates, Reranker, Retriever
from r2med_ray.storage.artifacts import (
    ArtifactKey,
    ArtifactStore,
    Json,
    canonical_json,
    fingerprint,
    fingerprint_queries,
)
from r2med_ray.types import Query, QueryId, Repairs, Reranking, Run, ScoredDoc

RUN_FILE = "run.parquet"
SCORES_FILE = "scores.parquet"
REPAIRS_FILE = "repairs.json"
"""Beside the scores, where something was repaired."""


class StoredRetriever:
    """A retriever that is built only for questions it has not been asked before.

    Args:
        tag: tag of its runs; no part of the key.
        store: where runs are kept.
        inputs: everything about corpus and retriever that changes a ranking.
        build: makes the retriever when a run is missing.
    """

    def __init__(
        self, tag: str, store: ArtifactStore, inputs: Mapping[str, Json], build: Callable[[], Retriever]
    ) -> None:
        self.tag = tag
        self._store = store
        self._inputs = inputs
        self._build = build

    def key(self, queries: Sequence[Query], *, k: int) -> ArtifactKey:
        """Return the key of the run that answers these queries."""
        inputs = {**self._inputs, "queries": fingerprint_queries(queries), "k": k}
        excluded = {query.query_id: sorted(query.excluded) for query in queries if query.excluded}
        return ArtifactKey("run", inputs | ({"excluded": fingerprint(excluded)} if excluded else {}))

    def is_stored(self, queries: Sequence[Query], *, k: int) -> bool:
        """Say whether `retrieve` would only read."""
        return self._store.find(self.key(queries, k=k)) is not None

    def retrieve(self, queries: Sequence[Query], *, k: int) -> Run:
        """Return the stored run, or retrieve and store it."""
        key = self.key(queries, k=k)
        artifact = self._store.find(key)
        if artifact is None:
            run = self._build().retrieve(queries, k=k)
            with self._store.create(key) as writer:
                writer.write_table(RUN_FILE, run_table(run))
            artifact = self._store.get(key)
        return run_from_table(self.tag, queries, artifact.table(RUN_FILE))


class StoredReranker:
    """A reranker that scores only what it has not scored before; the key holds what it is shown.

    Args:
        store: where scores are kept.
        inputs: everything else that changes a score.
        build: makes the reranker when scores are missing.
        sees_scores: whether it is shown the first stage's scores, which are part of the key then.
    """

    def __init__(
        self,
        store: ArtifactStore,
        inputs: Mapping[str, Json],
        build: Callable[[], Reranker],
        *,
        sees_scores: bool = False,
    ) -> None:
        self._store = store
        self._inputs = inputs
        self._build = build
        self._sees_scores = sees_scores

    def key(self, work: Sequence[Candidates]) -> ArtifactKey:
        """Return the key of the scores of these candidates."""
        shown = [
            [query.query_id, query.text, [[document.doc_id, document.content] for document in documents]]
            for query, documents, _ in work
        ]
        inputs = {**self._inputs, "pairs": fingerprint(shown)}
        scores = [list(candidates.scores) for candidates in work]
        return ArtifactKey("rerank", inputs | ({"scores": fingerprint(scores)} if self._sees_scores else {}))

    def score_all(self, work: Sequence[Candidates]) -> Reranking:
        """Return the stored scores with what was repaired for them, or have them made and store them."""
        key = self.key(work)
        artifact = self._store.find(key)
        if artifact is None:
            made = self._build().score_all(work)
            columns = {"query_id": list(made.scores), "scores": pa.array(made.scores.values(), _SCORES)}
            with self._store.create(key) as writer:
                writer.write_table(SCORES_FILE, pa.table(columns))
                if made.repairs.query_ids:
                    writer.write(REPAIRS_FILE, canonical_json(asdict(made.repairs)).encode())
            artifact = self._store.get(key)
        table = artifact.table(SCORES_FILE)
        scores = dict(zip(table["query_id"].to_pylist(), table["scores"].to_pylist(), strict=True))
        if REPAIRS_FILE not in artifact.files:
            return Reranking(scores=scores)
        return Reranking(scores=scores, repairs=Repairs(**json.loads(artifact.read(REPAIRS_FILE).to_pybytes())))


_SCORES = pa.list_(pa.float64())


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
