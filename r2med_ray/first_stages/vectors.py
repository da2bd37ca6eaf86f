"""One vector per text as a first stage: a dense encoder or an embedding service, and the index of its vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.corpus.pieces import num_pieces
from r2med_ray.first_stage import Computing, MadeBy, Maker, ModelFacts
from r2med_ray.first_stages.bad_documents import key_of_stored
from r2med_ray.first_stages.common import CommonFirstStage, WantedRetriever
from r2med_ray.first_stages.vector_making import ServiceMaker, VectorMaker
from r2med_ray.indexing.embedding import read_vectors
from r2med_ray.indexing.factory import EXACT, with_search_parameters
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE, query_vectors_key, vectors_key
from r2med_ray.models.catalog.devices import prepare_worker
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.services import ApiEncoderRow, cost_line
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.models.services.embeddings import ApiEncoder
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import FloatMatrix, Query, Task

if TYPE_CHECKING:
    from r2med_ray.indexing.dense import DenseIndex

VectorRow = TypeVar("VectorRow", EncoderRow, ApiEncoderRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFirstStage(CommonFirstStage, Generic[VectorRow]):
    """Vectors and their index, whoever makes them."""

    row: VectorRow = field(hash=False)
    index: str = EXACT
    """FAISS factory string with its search parameters; `Flat` is exact."""

    artifact_label: ClassVar[str] = "vectors"

    @classmethod
    def resolve(cls, row: VectorRow, wanted: WantedRetriever) -> Self:
        """Return the first stage that a benchmark file asks for.

        Raises:
            ConfigError: the index is approximate, and nothing says how much of it is searched.
        """
        return cls(
            row=row.under(wanted.rules.compat).model_copy(update=wanted.row_changes()),
            index=with_search_parameters(wanted.retriever.index or EXACT),
            rules=wanted.rules,
            on_bad_document=wanted.on_bad_document,
        )

    @property
    def label(self) -> str:
        return self.row.name if self.index == EXACT else f"{self.row.name}[{self.index}]"

    @property
    def exact(self) -> Self | None:
        return None if self.index == EXACT else replace(self, index=EXACT)

    @property
    def published(self) -> str | None:
        return self.row.published if self.index == EXACT else None

    @property
    def artifact_group(self) -> str:
        return self.row.model_dump_json()

    @property
    def drop_identical_ids(self) -> bool:
        return self.rules.vectors_drop_identical_ids

    def settings(self) -> Mapping[str, Json]:
        return {
            **self.row.model_dump(mode="json", exclude_defaults=True),
            **self.row.chosen,
            "index": self.index,
            "drop_identical_ids": self.drop_identical_ids,
            **self.skipping,
        }

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {
            "corpus": task.corpus.digest,
            "shards": [shard.num_rows for shard in task.corpus.shards],
            "encoder": self.row.encoding_inputs(task.name, device=device),
            "expansion_prompt": self.row.expansion_prompt,
            "index": self.index,
            "compat": self.rules.compat,
            "drop_identical_ids": self.drop_identical_ids,
            **self.skipping,
        }

    def shard_key(self, task: str, corpus: Corpus, shard: CorpusShard, device: str) -> ArtifactKey:
        inputs = self.row.encoding_inputs(task, device=device, side="document")
        alone = self.rows_alone(corpus, shard, inputs)
        pieces = self.pieces_in_key(shard, inputs)
        return vectors_key(shard, self.skip_rows(corpus, shard), inputs, alone=alone, pieces=pieces)

    def queries_key(self, task: str, queries: Sequence[Query], device: str) -> ArtifactKey:
        inputs = self.row.encoding_inputs(task, device=device)
        return query_vectors_key(
            queries, {**inputs, "expansion": self.row.expansion_prompt, "compat": self.rules.compat}
        )

    def load_index(
        self, store: ArtifactStore, task: Task, shard: CorpusShard, gathered: None, device: str
    ) -> "DenseIndex":
        """Return the index of a shard's vectors, of unit length where R2MED's rules compare all of them by cosine."""
        from r2med_ray.first_stages.vector_index import open_vector_index  # imports faiss

        key = key_of_stored(store, self.on_bad_document, self.shard_key(task.name, task.corpus, shard, device))
        cosine = self.rules.cosine_for_all and self.row.similarity == "dot"
        return open_vector_index(store, key, self.index, cosine=cosine)

    def prepare(self, store: ArtifactStore, task: Task, queries: Sequence[Query], device: str) -> FloatMatrix:
        """Return the stored vectors of queries: float32, shape (queries, embedding size), in their order."""
        artifact = store.get(self.queries_key(task.name, queries, device))
        return read_vectors(artifact.table(QUERY_VECTORS_FILE)).vectors


class DenseFirstStage(VectorFirstStage[EncoderRow]):
    """An encoder and its vector index."""

    __slots__ = ()
    work: ClassVar[MadeBy] = "encode"

    def pieces(self, shard: CorpusShard) -> int:
        return num_pieces(shard)

    def model_facts(self) -> ModelFacts:
        row = self.row
        return ModelFacts(
            vectors="dense",
            checkpoint=row.model or None,
            revision=row.revision,
            similarity=row.similarity,
            max_length=row.max_length,
            has_prompts=bool(row.query_prompt or row.document_prompt),
        )

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        """Load the model."""
        prepare_worker(computing.threads)
        encoders = TaskEncoders(self.row, device=computing.device, token_budget=computing.token_budget)
        return VectorMaker(self.row, encoders.for_task)


class ApiFirstStage(VectorFirstStage[ApiEncoderRow]):
    """An embedding service and the index of its vectors."""

    __slots__ = ()
    work: ClassVar[MadeBy] = "ask a service"

    def rows_alone(self, corpus: Corpus, shard: CorpusShard, inputs: Mapping[str, Json]) -> tuple[int, ...]:
        """Return no rows: a request of its own for each text would cost time, and a service promises nothing."""
        return ()

    def model_facts(self) -> ModelFacts:
        return ModelFacts(vectors="dense", similarity=self.row.similarity, max_length=self.row.max_length)

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        """Load the service's tokenizer; every answer of the service is kept in the store."""
        return ServiceMaker(self.row, ApiEncoder(self.row, store, asks=computing.asks))

    def cost(self, usage: Mapping[str, int]) -> str:
        return cost_line(self.row, usage) if usage else ""

    def usd(self, usage: Mapping[str, int]) -> float | None:
        return self.row.usd(usage["tokens"]) if usage else None
