"""One vector per text as a first stage: a dense encoder or an embedding service, and the index of its vectors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.corpus.pieces import num_pieces
from r2med_ray.cuts import Side
from r2med_ray.first_stage import Computing, MadeBy, Maker, ModelFacts
from r2med_ray.first_stages.bad_documents import key_of_stored
from r2med_ray.first_stages.common import CommonFirstStage, WantedRetriever, labelled
from r2med_ray.first_stages.vector_making import ServiceMaker, VectorMaker, encoders_of
from r2med_ray.indexing.codes import clipped_ranges_of, codes_of, ranges_of
from r2med_ray.indexing.compression import (
    WHOLE,
    CompressedIndex,
    Compression,
    StoredVectors,
    cut_vectors,
    require_dimensions,
)
from r2med_ray.indexing.embedding import read_vectors
from r2med_ray.indexing.factory import EXACT, with_search_parameters
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE, VECTORS_FILE, query_vectors_key, vectors_key
from r2med_ray.models.catalog.devices import prepare_worker
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.services import ApiEncoderRow, cost_line
from r2med_ray.models.catalog.vllm_pooling import require_engine
from r2med_ray.models.services.embeddings import ApiEncoder
from r2med_ray.settings.retriever import INTEGERS
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.storage.listing import made_for
from r2med_ray.types import DocId, FloatMatrix, Query, Task

if TYPE_CHECKING:
    from r2med_ray.indexing.dense import DenseIndex

TRAINED_ON = {"trained_on": "all shards"}
"""What the key of a run says about its approximate indexes."""

VectorRow = TypeVar("VectorRow", EncoderRow, ApiEncoderRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFirstStage(CommonFirstStage, Generic[VectorRow]):
    """Vectors and their index, whoever makes them."""

    row: VectorRow = field(hash=False)
    index: str = EXACT
    """FAISS factory string with its search parameters; `Flat` is exact."""

    compression: Compression = WHOLE
    artifact_label: ClassVar[str] = "vectors"

    @classmethod
    def resolve(cls, row: VectorRow, wanted: WantedRetriever) -> Self:
        """Return the first stage that a benchmark file asks for.

        Raises:
            ConfigError: the index is approximate, and nothing says how much of it is searched; or more components are
                to be kept than the vectors have; or the row's engine can't make its vectors.
        """
        asked = wanted.retriever
        row = row.under(wanted.rules.compat).model_copy(update=wanted.row_changes())
        require_engine(row)
        if asked.embed_dim:
            require_dimensions(row.name, asked.embed_dim, row.known_dimension())
        return cls(
            row=row,
            index=with_search_parameters(asked.index or EXACT),
            compression=Compression.asked(asked),
            rules=wanted.rules,
            on_bad_document=wanted.on_bad_document,
        )

    @property
    def label(self) -> str:
        return labelled(self.row.name, [*self.compression.words, *([] if self.index == EXACT else [self.index])])

    @property
    def exact(self) -> Self | None:
        return None if self._is_exact else replace(self, index=EXACT, compression=WHOLE)

    @property
    def _is_exact(self) -> bool:
        return self.index == EXACT and self.compression == WHOLE

    @property
    def rescore_multiplier(self) -> int:
        return self.compression.rescore_multiplier

    @property
    def held_share(self) -> float:
        return self.compression.held_share("float32")

    @property
    def published(self) -> str | None:
        return self.row.published if self._is_exact else None

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
            **self.compression.inputs(),
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
            **({} if self.index == EXACT else TRAINED_ON),
            **self.compression.inputs(),
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

    def gather(self, store: ArtifactStore, task: Task, device: str) -> FloatMatrix | ArtifactKey | None:
        """Return the range of each component over the whole corpus, by which values become integers.

        For an approximate index, this is the key of what was trained on a sample of the corpus; see
        `train_vector_index`.
        """
        if self.index != EXACT:
            return self._trained(store, task, device)
        if self.compression.output_dtype not in INTEGERS:
            return None

        def shards() -> Iterator[FloatMatrix]:
            return (self.read_shard(store, task, shard, device)[1] for shard in task.corpus.shards)

        margin = self.compression.clipping_margin
        return clipped_ranges_of(shards, margin) if margin else ranges_of(shards())

    def _trained(self, store: ArtifactStore, task: Task, device: str) -> ArtifactKey | None:
        from r2med_ray.first_stages.vector_index import train_vector_index  # imports faiss

        # Additions to a corpus are not counted, so the indexes of its own shards stay as they are.
        shards = task.corpus.counted_shards
        return train_vector_index(
            store,
            [self._stored_key(store, task, shard, device) for shard in shards],
            self.index,
            num_rows=sum(shard.num_rows for shard in shards),
            cosine=self._lengths_change("document"),
            embed_dim=self.compression.embed_dim,
            attributes=made_for(task.name, self.label),
        )

    def load_index(
        self,
        store: ArtifactStore,
        task: Task,
        shard: CorpusShard,
        gathered: FloatMatrix | ArtifactKey | None,
        device: str,
    ) -> "DenseIndex | CompressedIndex | StoredVectors":
        """Return the index of a shard's vectors, in the form in which they are compared."""
        if self.compression.output_dtype != "float32":
            assert not isinstance(gathered, ArtifactKey), "such vectors have no index of FAISS"
            doc_ids, vectors_ND = self.read_shard(store, task, shard, device)
            codes = codes_of(vectors_ND, self.compression.output_dtype, gathered)
            return CompressedIndex(
                doc_ids, codes, StoredVectors(partial(self.read_shard, store, task, shard, device))
            )
        from r2med_ray.first_stages.vector_index import open_vector_index  # imports faiss

        return open_vector_index(
            store,
            self._stored_key(store, task, shard, device),
            self.index,
            cosine=self._lengths_change("document"),
            embed_dim=self.compression.embed_dim,
            trained=gathered if isinstance(gathered, ArtifactKey) else None,
        )

    def read_shard(
        self, store: ArtifactStore, task: Task, shard: CorpusShard, device: str
    ) -> tuple[Sequence[DocId], FloatMatrix]:
        """Return ids and vectors of a shard's documents, in the form in which they are compared."""
        stored = read_vectors(store.get(self._stored_key(store, task, shard, device)).table(VECTORS_FILE))
        return stored.doc_ids, self.as_compared(stored.vectors, "document")

    def _stored_key(self, store: ArtifactStore, task: Task, shard: CorpusShard, device: str) -> ArtifactKey:
        return key_of_stored(store, self.on_bad_document, self.shard_key(task.name, task.corpus, shard, device))

    def as_compared(self, vectors_ND: FloatMatrix, side: Side) -> FloatMatrix:
        """Return stored vectors of one side as they are compared: cut, and of unit length for cosine.

        Raises:
            ConfigError: they have fewer components than are to be kept.
        """
        return cut_vectors(vectors_ND, self.compression.embed_dim, unit=self._lengths_change(side))

    def _lengths_change(self, side: Side) -> bool:
        """Say whether stored vectors have another length than those that are compared.

        Vectors that are compared by cosine are stored with unit length, but for those of documents that only R2MED's
        rules compare so. A vector that is cut has another length.
        """
        if self.row.similarity == "cosine" or side == "query":
            is_cosine = self.row.similarity == "cosine" or self.rules.cosine_for_all
            return is_cosine and self.compression.embed_dim is not None
        return self.rules.cosine_for_all

    def prepare(self, store: ArtifactStore, task: Task, queries: Sequence[Query], device: str) -> FloatMatrix:
        """Return the vectors of queries: float32, shape (queries, components), in their order."""
        artifact = store.get(self.queries_key(task.name, queries, device))
        return self.as_compared(read_vectors(artifact.table(QUERY_VECTORS_FILE)).vectors, "query")


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
        return VectorMaker(self.row, encoders_of(self.row, computing).for_task, self.compression.embed_dim)


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
