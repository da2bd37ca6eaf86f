"""Sparse encoders and late interaction as first stages: checkpoints that say themselves what their vectors are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.corpus.pieces import num_pieces
from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import Computing, MadeBy, Maker, ModelFacts
from r2med_ray.first_stages.bad_documents import key_of_stored
from r2med_ray.first_stages.checkpoint_making import (
    SPARSE_VECTORS,
    TOKEN_VECTORS,
    CheckpointMaker,
    TokenMaker,
    VectorFormat,
)
from r2med_ray.first_stages.common import CommonFirstStage, WantedRetriever, labelled
from r2med_ray.indexing.compression import WHOLE, Compression
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE, query_vectors_key, vectors_key
from r2med_ray.models.catalog.checkpoints import LateInteractionRow, SparseRow
from r2med_ray.models.catalog.devices import prepare_worker
from r2med_ray.models.networks.late_interaction import LateInteractionEncoder
from r2med_ray.models.networks.sparse_encoders import SparseEncoder
from r2med_ray.protocols import Index
from r2med_ray.sentences import Shares
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import Document, Query, Task

Asked: TypeAlias = tuple[Query, Sequence[Document]]
"""A query, and documents whose scores for it are to be explained."""

CheckpointRow = TypeVar("CheckpointRow", SparseRow, LateInteractionRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFirstStage(CommonFirstStage, Generic[CheckpointRow]):
    """An encoder that says itself what its vectors are, and the index of them."""

    row: CheckpointRow = field(hash=False)
    compression: Compression = WHOLE

    work: ClassVar[MadeBy] = "encode"
    artifact_label: ClassVar[str]
    artifact_kind: ClassVar[str]
    """Kind of the artefact that holds a shard's vectors."""

    model_kind: ClassVar[Literal["sparse", "late-interaction"]]
    form: ClassVar[VectorFormat]

    @classmethod
    def resolve(cls, row: CheckpointRow, wanted: WantedRetriever) -> Self:
        """Return the first stage that a benchmark file asks for.

        Raises:
            ConfigError: there are no such codes of its vectors.
        """
        asked = wanted.retriever.output_dtype
        if asked and asked not in cls.form.output_dtypes:
            raise ConfigError(
                f"{row.name}: {cls.artifact_label} have no `output_dtype: {asked}`; take "
                f"{', '.join(cls.form.output_dtypes)}, or leave it out, and they are searched as they are stored"
            )
        return cls(
            row=row.model_copy(update=wanted.row_changes()),
            compression=Compression.asked(wanted.retriever),
            rules=wanted.rules,
            on_bad_document=wanted.on_bad_document,
        )

    @property
    def label(self) -> str:
        return labelled(self.row.name, self.compression.words)

    @property
    def exact(self) -> Self | None:
        return None if self.compression == WHOLE else replace(self, compression=WHOLE)

    @property
    def rescore_multiplier(self) -> int:
        return self.compression.rescore_multiplier

    @property
    def artifact_group(self) -> str:
        return self.row.model_dump_json()

    def settings(self) -> Mapping[str, Json]:
        return {
            **self.row.model_dump(mode="json", exclude_defaults=True),
            **self.row.chosen,
            "vectors": self.artifact_label,
            **self.compression.inputs(),
            "drop_identical_ids": self.drop_identical_ids,
            **self.skipping,
        }

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {
            "corpus": task.corpus.digest,
            "shards": [shard.num_rows for shard in task.corpus.shards],
            self.artifact_kind: self.row.encoding_inputs(device=device),
            **self.compression.inputs(),
            "drop_identical_ids": self.drop_identical_ids,
            **self.skipping,
        }

    def model_facts(self) -> ModelFacts:
        row = self.row
        return ModelFacts(
            vectors=self.model_kind,
            checkpoint=row.model,
            revision=row.revision,
            max_length=row.max_length,
            has_prompts=bool(row.query_prompt or row.document_prompt),
        )

    def shard_key(self, task: str, corpus: Corpus, shard: CorpusShard, device: str) -> ArtifactKey:
        inputs = self.row.encoding_inputs(device=device, side="document")
        alone = self.rows_alone(corpus, shard, inputs)
        pieces = self.pieces_in_key(shard, inputs)
        return vectors_key(shard, self.skip_rows(corpus, shard), inputs, self.artifact_kind, alone, pieces)

    def pieces(self, shard: CorpusShard) -> int:
        return num_pieces(shard)

    def queries_key(self, task: str, queries: Sequence[Query], device: str) -> ArtifactKey:
        """Return the key of the vectors of queries, which are the same for every task and under all rules."""
        return query_vectors_key(queries, self.row.encoding_inputs(device=device), self.artifact_kind)

    def load_index(
        self, store: ArtifactStore, task: Task, shard: CorpusShard, gathered: None, device: str
    ) -> Index[Any]:
        key = key_of_stored(store, self.on_bad_document, self.shard_key(task.name, task.corpus, shard, device))
        return self.form.open_index(store.get(key), self.compression.output_dtype)

    def prepare(self, store: ArtifactStore, task: Task, queries: Sequence[Query], device: str) -> Any:
        """Return the stored vectors of queries, in the form that the index of their kind takes."""
        stored = store.get(self.queries_key(task.name, queries, device))
        return self.form.read_queries(stored.table(QUERY_VECTORS_FILE))


class SparseFirstStage(CheckpointFirstStage[SparseRow]):
    """A sparse encoder (SPLADE): inner products of vocabulary weights."""

    __slots__ = ()
    artifact_label: ClassVar[str] = "sparse vectors"
    artifact_kind: ClassVar[str] = "sparse-vectors"
    model_kind: ClassVar[Literal["sparse"]] = "sparse"
    form: ClassVar[VectorFormat] = SPARSE_VECTORS

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        """Load the model."""
        prepare_worker(computing.threads)
        encoder = SparseEncoder(self.row, device=computing.device, token_budget=computing.token_budget)
        return CheckpointMaker(self.form, encoder)


class LateInteractionFirstStage(CheckpointFirstStage[LateInteractionRow]):
    """Late interaction (ColBERT): MaxSim of token vectors."""

    __slots__ = ()
    artifact_label: ClassVar[str] = "token vectors"
    artifact_kind: ClassVar[str] = "token-vectors"
    model_kind: ClassVar[Literal["late-interaction"]] = "late-interaction"
    form: ClassVar[VectorFormat] = TOKEN_VECTORS

    @property
    def held_share(self) -> float:
        # A token's factor has 32 bits. No model of the catalogue gives a token fewer than 96 components.
        return self.compression.held_share("float16", more_bits=32 / 96)

    def load(self, store: ArtifactStore, computing: Computing) -> TokenMaker:
        """Load the model."""
        prepare_worker(computing.threads)
        encoder = LateInteractionEncoder(self.row, device=computing.device, token_budget=computing.token_budget)
        return TokenMaker(encoder)

    def sentence_shares(
        self, store: ArtifactStore, asked: Sequence[Asked], computing: Computing
    ) -> list[list[Shares]]:
        """Return the share of each sentence in the score of each document that is asked about.

        The model is loaded into this process, and reads the documents again: their vectors don't tell its tokens.
        """
        maker = self.load(store, computing)
        return [maker.sentence_shares(query, documents) for query, documents in asked]
