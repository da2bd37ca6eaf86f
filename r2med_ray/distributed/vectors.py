"""INDEX and SEARCH of vectors: one FAISS index per shard, out of stored vectors, in actors."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from r2med_ray.capacity import Pool
from r2med_ray.distributed.encode import Encoding, VectorEncoding, encode
from r2med_ray.distributed.search import ShardedRetriever
from r2med_ray.distributed.stage_parts import Asked, Done, Workplace
from r2med_ray.indexing.dense import EXACT, DenseIndex
from r2med_ray.indexing.embedding import read_vectors
from r2med_ray.indexing.keys import ANN_FILE, QUERY_VECTORS_FILE, VECTORS_FILE, ann_key
from r2med_ray.stages.vectors import DenseStage, VectorRow
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Compat, CorpusShard, FloatMatrix, Query, Task


class DenseParts:
    """A dense encoder and its vectors on a cluster."""

    def __init__(self, workplace: Workplace) -> None:
        self._at = workplace

    def prepare(self, asked: Sequence[Asked[DenseStage]]) -> list[Done]:
        """Embed every shard and all queries that have no vectors yet."""
        return encode(self._at, self._encoding(asked[0].stage), asked)

    def open(self, task: Task, stage: DenseStage) -> ShardedRetriever[FloatMatrix]:
        """Start shard actors over a task's vectors."""
        return open_vectors(
            self._at.store,
            self._encoding(stage),
            task,
            stage.index,
            stage.compat,
            self._at.pools.search,
            drop_identical_ids=stage.drop_identical_ids,
        )

    def _encoding(self, stage: DenseStage) -> Encoding:
        budget = self._at.resources.encode.token_budget
        return Encoding(row=stage.row, device=self._at.pools.encode.device, token_budget=budget)


def open_vectors(
    store: ArtifactStore,
    encoding: VectorEncoding[VectorRow],
    task: Task,
    factory: str,
    compat: Compat,
    pool: Pool,
    *,
    drop_identical_ids: bool,
) -> ShardedRetriever[FloatMatrix]:
    """Start shard actors over a task's vectors, which must be stored, as must be those of the queries to come.

    Args:
        store: where the vectors are.
        encoding: the encoder that made them.
        task: whose corpus is searched.
        factory: FAISS factory string; `Flat` is exact.
        compat: under `r2med` every model is scored by cosine, whatever it was trained for.
        pool: of the shard actors.
        drop_identical_ids: leave out a document whose id is the query's.
    """
    unit_length = compat == "r2med" and encoding.row.similarity == "dot"
    return ShardedRetriever(
        f"{encoding.row.name} on {task.name}",
        partial(_query_vectors, store, encoding, task, compat),
        partial(_load_index, store, encoding, task, factory, unit_length),
        task.corpus.shards,
        pool,
        drop_identical_ids=drop_identical_ids,
    )


def _query_vectors(
    store: ArtifactStore, encoding: VectorEncoding[VectorRow], task: Task, compat: Compat, queries: Sequence[Query]
) -> FloatMatrix:
    """Return float32 of shape (Q, D), as `encode.encode_queries` stored it."""
    artifact = store.get(encoding.query_vectors_key(task, queries, compat))
    return read_vectors(artifact.table(QUERY_VECTORS_FILE)).vectors


def _load_index(
    store: ArtifactStore,
    encoding: VectorEncoding[VectorRow],
    task: Task,
    factory: str,
    unit_length: bool,
    shard: CorpusShard,
) -> DenseIndex:
    key = encoding.vectors_key(task, shard)
    stored = read_vectors(store.get(key).table(VECTORS_FILE))
    vectors_ND = _unit(stored.vectors) if unit_length else stored.vectors
    if factory == EXACT:
        return DenseIndex.build(stored.doc_ids, vectors_ND)
    trained = ann_key(key, factory, unit_length)
    artifact = store.find(trained)
    if artifact is not None:
        return DenseIndex.from_bytes(stored.doc_ids, artifact.read(ANN_FILE))
    index = DenseIndex.build(stored.doc_ids, vectors_ND, factory)
    with store.create(trained) as writer:
        writer.write(ANN_FILE, index.to_bytes())
    return index


def _unit(vectors_ND: FloatMatrix) -> FloatMatrix:
    lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    unit_ND: FloatMatrix = np.divide(vectors_ND, lengths_N1, out=np.zeros_like(vectors_ND), where=lengths_N1 > 0)
    return unit_ND
