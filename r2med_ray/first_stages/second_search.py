"""A second search, among what a first stage found: a text that shows the candidates is embedded like a query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.cuts import Side, SideCuts
from r2med_ray.first_stage import Computing, Maker
from r2med_ray.first_stages.common import WantedRetriever
from r2med_ray.first_stages.vector_making import VectorMaker, encoders_of
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.indexing.compression import StoredVectors
from r2med_ray.models.catalog.devices import prepare_worker
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.listwise_encoders import ListwiseEncoderRow
from r2med_ray.models.catalog.vllm_pooling import require_engine
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import Document, Query, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondSearch(DenseFirstStage):
    """An encoder that reads queries by another row than documents, and scores the documents that a search names.

    Its documents have the vectors that the encoder makes as a retriever, so they are not encoded again. Its `row`
    reads the queries.
    """

    name: str
    """The name of the reranker's row."""

    documents: EncoderRow = field(hash=False)
    """The row that reads the documents."""

    @classmethod
    def of(cls, row: ListwiseEncoderRow, encoder: EncoderRow, wanted: WantedRetriever) -> Self:
        """Return the second search of a reranker, under the rules of its system.

        Raises:
            ConfigError: the encoder's engine can't make its vectors.
        """
        documents = encoder.under(wanted.rules.compat).model_copy(update=wanted.row_changes())
        require_engine(documents)
        return cls(
            name=row.name,
            row=row.reads(documents),
            documents=documents,
            rules=wanted.rules,
            on_bad_document=wanted.on_bad_document,
        )

    @property
    def label(self) -> str:
        return self.name

    @property
    def published(self) -> str | None:
        return None

    @property
    def held_share(self) -> float:
        """The share of the vectors that stays in memory: none, as they are read whenever candidates are scored."""
        return 0.0

    @property
    def artifact_group(self) -> str:
        return f"{self.documents.model_dump_json()} {self.row.model_dump_json()}"

    @property
    def drop_identical_ids(self) -> bool:
        """What is left out: nothing, as whoever found the candidates has left it out."""
        return False

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        of_documents = self.documents.encoding_inputs(task.name, device=device, side="document")
        return {**DenseFirstStage.inputs(self, task, device), "documents": of_documents}

    def shard_key(self, task: str, corpus: Corpus, shard: CorpusShard, device: str) -> ArtifactKey:
        return self.retriever.shard_key(task, corpus, shard, device)

    def load_index(
        self, store: ArtifactStore, task: Task, shard: CorpusShard, gathered: object, device: str
    ) -> StoredVectors:
        """Return the vectors of a shard, which stay in the store until candidates are scored."""
        return StoredVectors(partial(self.read_shard, store, task, shard, device))

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        """Return a maker that loads the model for the side that it is asked for."""
        prepare_worker(computing.threads)
        return _OneSideAtATime({"query": self.row, "document": self.documents}, computing)

    @property
    def retriever(self) -> DenseFirstStage:
        """The encoder as a retriever, whose vectors of documents it uses."""
        return DenseFirstStage(row=self.documents, rules=self.rules, on_bad_document=self.on_bad_document)


class _OneSideAtATime(Maker):
    """Makes vectors of documents by one row and of queries by another; one model is in memory at a time."""

    def __init__(self, rows: Mapping[Side, EncoderRow], computing: Computing) -> None:
        self._rows = rows
        self._computing = computing
        self._loaded: dict[Side, VectorMaker] = {}

    def make_shard(
        self, task: str, documents: Sequence[Document], rows: Sequence[int] | npt.NDArray[np.int64]
    ) -> Mapping[str, pa.Table]:
        return self._for("document").make_shard(task, documents, rows)

    def make_queries(self, task: str, queries: Sequence[Query], rules: Rules) -> Mapping[str, pa.Table]:
        return self._for("query").make_queries(task, queries, rules)

    def take_cuts(self) -> SideCuts | None:
        """Return what the model in memory has cut since the last call; None if it can't say, or none is there."""
        return next((maker.take_cuts() for maker in self._loaded.values()), None)

    def _for(self, side: Side) -> VectorMaker:
        if side not in self._loaded:
            self._loaded.clear()
            row = self._rows[side]
            self._loaded[side] = VectorMaker(row, encoders_of(row, self._computing).for_task)
        return self._loaded[side]
