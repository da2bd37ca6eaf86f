"""ENCODE, INDEX and SEARCH of sparse vectors and of token vectors: one index per shard, in actors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa

from r2med_ray.corpus.loading import ShardRows
from r2med_ray.distributed.encode import Embedder, Questions, encode
from r2med_ray.distributed.search import ShardedRetriever
from r2med_ray.distributed.stage_parts import Asked, Done, Workplace
from r2med_ray.indexing import late_interaction, sparse
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE, VECTORS_FILE, query_vectors_key
from r2med_ray.models.catalog.devices import prepare_worker
from r2med_ray.models.networks.late_interaction import LateInteractionEncoder
from r2med_ray.models.networks.sparse_encoders import SparseEncoder
from r2med_ray.protocols import Index
from r2med_ray.retrieval.query_parts import encode_parts
from r2med_ray.stages.checkpoints import CheckpointStage
from r2med_ray.storage.artifacts import ArtifactKey, ArtifactStore
from r2med_ray.types import Compat, CorpusShard, Query, Task

Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorKind(Generic[Prepared]):
    """What sparse vectors and token vectors differ in: how they are made, stored and searched."""

    build_encoder: Callable[..., SparseEncoder | LateInteractionEncoder]
    split: Callable[[Any], Sequence[Any]]
    """What the encoder returned, text by text."""

    document_table: Callable[[Any, Sequence[str], Any], pa.Table]
    query_table: Callable[[Sequence[str], Sequence[Sequence[Any]]], pa.Table]
    read_queries: Callable[[pa.Table], Prepared]
    build_index: Callable[[pa.Table], Index[Prepared]]


SPARSE: VectorKind[Any] = VectorKind(
    build_encoder=SparseEncoder,
    split=sparse.split_rows,
    document_table=sparse.sparse_table,
    query_table=sparse.query_table,
    read_queries=sparse.read_queries,
    build_index=sparse.SparseIndex.of_table,
)
LATE_INTERACTION: VectorKind[Sequence[late_interaction.TokenQuery]] = VectorKind(
    build_encoder=LateInteractionEncoder,
    split=list,
    document_table=late_interaction.token_table,
    query_table=late_interaction.query_table,
    read_queries=late_interaction.read_queries,
    build_index=late_interaction.LateInteractionIndex.of_table,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEncoding:
    """A sparse or late interaction encoder, and what it computes on."""

    kind: VectorKind[Any]
    stage: CheckpointStage
    device: str
    token_budget: int

    @property
    def name(self) -> str:
        return self.stage.label

    def load(self, threads: int) -> Embedder:
        """Load the model into this process."""
        prepare_worker(threads)
        encoder = self.kind.build_encoder(self.stage.row, device=self.device, token_budget=self.token_budget)
        return CheckpointEmbedder(self.kind, encoder)

    def vectors_key(self, task: Task, shard: CorpusShard) -> ArtifactKey:
        """Return the key of one shard's vectors."""
        return self.stage.shard_key(task.corpus, shard, self.device)

    def query_vectors_key(self, task: Task, queries: Sequence[Query], compat: Compat) -> ArtifactKey:
        """Return the key of the vectors of a task's queries, which are the same under every `compat`."""
        return query_vectors_key(queries, self.stage.row.encoding_inputs(device=self.device), self.stage.artifact)


class CheckpointEmbedder(Embedder):
    """An encoder in this process, and how its answers are stored."""

    def __init__(self, kind: VectorKind[Any], encoder: SparseEncoder | LateInteractionEncoder) -> None:
        self._kind = kind
        self._encoder = encoder

    def embed_documents(self, task: str, shard: ShardRows) -> pa.Table:
        """Return a shard's documents as a table of their kind."""
        ids = [document.doc_id for document in shard.documents]
        return self._kind.document_table(shard.rows, ids, self._encoder.encode_documents(shard.documents))

    def embed_queries(self, asked: Questions) -> pa.Table:
        """Return the queries as a table of their kind."""
        parts = encode_parts(
            asked.queries,
            lambda texts: self._kind.split(self._encoder.encode_queries(texts)),
            lambda documents: self._kind.split(self._encoder.encode_documents(documents)),
        )
        return self._kind.query_table([query.query_id for query in asked.queries], parts)


class CheckpointParts:
    """A sparse or late interaction encoder and its vectors on a cluster."""

    def __init__(self, kind: VectorKind[Any], workplace: Workplace) -> None:
        self._kind = kind
        self._at = workplace

    def prepare(self, asked: Sequence[Asked[CheckpointStage]]) -> list[Done]:
        """Embed every shard and all queries that have no vectors yet."""
        return encode(self._at, self._encoding(asked[0].stage), asked)

    def open(self, task: Task, stage: CheckpointStage) -> ShardedRetriever[Any]:
        """Start shard actors over a task's vectors."""
        encoding = self._encoding(stage)
        return ShardedRetriever(
            f"{stage.label} on {task.name}",
            partial(_queries, self._at.store, encoding, task, stage.compat),
            partial(_index, self._at.store, encoding, task),
            task.corpus.shards,
            self._at.pools.search,
            drop_identical_ids=stage.drop_identical_ids,
        )

    def _encoding(self, stage: CheckpointStage) -> CheckpointEncoding:
        budget = self._at.resources.encode.token_budget
        return CheckpointEncoding(
            kind=self._kind, stage=stage, device=self._at.pools.encode.device, token_budget=budget
        )


def _queries(
    store: ArtifactStore, encoding: CheckpointEncoding, task: Task, compat: Compat, queries: Sequence[Query]
) -> Any:
    stored = store.get(encoding.query_vectors_key(task, queries, compat))
    return encoding.kind.read_queries(stored.table(QUERY_VECTORS_FILE))


def _index(store: ArtifactStore, encoding: CheckpointEncoding, task: Task, shard: CorpusShard) -> Index[Any]:
    return encoding.kind.build_index(store.get(encoding.vectors_key(task, shard)).table(VECTORS_FILE))
