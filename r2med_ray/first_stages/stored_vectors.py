"""Stored vectors of single documents and queries, found by their ids."""

from collections.abc import Collection, Sequence

from r2med_ray.corpus.shards import locate
from r2med_ray.errors import DataError
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.first_stages.vectors import VectorFirstStage
from r2med_ray.indexing.embedding import read_vectors
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.services import ApiEncoderRow
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import DocId, FloatVector, Query, QueryId, Task

Dense = VectorFirstStage[EncoderRow] | VectorFirstStage[ApiEncoderRow]


def document_vectors(
    store: ArtifactStore, first_stage: Dense, task: Task, doc_ids: Collection[DocId], device: str
) -> dict[DocId, FloatVector]:
    """Return id → float32 vector, for the documents that the corpus has and that were encoded.

    The artefacts of the shards that hold the ids must be stored. Each vector is the one beside its id.
    """
    found: dict[DocId, FloatVector] = {}
    for shard, ids in locate(store, task.corpus, doc_ids):
        of_shard, vectors_ND = first_stage.read_shard(store, task, shard, device)
        wanted = set(ids)
        found |= {doc_id: vectors_ND[place] for place, doc_id in enumerate(of_shard) if doc_id in wanted}
    return found


def query_vector(
    store: ArtifactStore, first_stage: Dense, task: Task, queries: Sequence[Query], query_id: QueryId, device: str
) -> FloatVector:
    """Return the float32 vector of one of the queries of a search.

    Raises:
        DataError: the stored vectors of these queries have none of this id.
    """
    for block in blocks(queries):
        if any(query.query_id == query_id for query in block):
            stored = read_vectors(
                store.get(first_stage.queries_key(task.name, block, device)).table(QUERY_VECTORS_FILE)
            )
            if query_id in stored.doc_ids:
                found: FloatVector = first_stage.as_compared(stored.vectors, "query")[stored.doc_ids.index(query_id)]
                return found
    raise DataError(f"{task.name}: {first_stage.label} has no vector of query {query_id!r}")
