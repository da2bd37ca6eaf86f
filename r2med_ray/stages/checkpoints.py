"""Sparse encoders and late interaction as first stages: checkpoints that say themselves what their vectors are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from r2med_ray.indexing.keys import vectors_key
from r2med_ray.models.catalog.checkpoint_rows import CheckpointRow, LateInteractionRow, SparseRow
from r2med_ray.stages.first_stage import Choice
from r2med_ray.storage.artifacts import ArtifactKey, Json
from r2med_ray.types import Compat, Corpus, CorpusShard, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStage:
    """An encoder that says itself what its vectors are, and the exact index of those."""

    row: CheckpointRow
    compat: Compat
    drop_identical_ids: bool
    holds = "vectors"
    needs_model = True
    artifact = "vectors"
    """Kind of artefact that holds a shard's vectors."""

    @classmethod
    def resolve(cls, row: CheckpointRow, choice: Choice) -> Self:
        return cls(
            row=row.model_copy(update=choice.row_changes()),
            compat=choice.compat,
            drop_identical_ids=bool(choice.ignore_identical_ids),
        )

    @property
    def label(self) -> str:
        return self.row.name

    @property
    def published(self) -> str | None:
        return None

    @property
    def prepared_as(self) -> str:
        return self.row.model_dump_json()

    def shard_key(self, corpus: Corpus, shard: CorpusShard, device: str) -> ArtifactKey:
        """Return the key of one shard's vectors."""
        inputs = self.row.encoding_inputs(device=device, side="document")
        return vectors_key(shard, corpus.duplicates_in(shard), inputs, self.artifact)

    def artifacts(self, task: str, corpus: Corpus, device: str) -> Sequence[ArtifactKey]:
        return [self.shard_key(corpus, shard, device) for shard in corpus.shards]

    def settings(self) -> Mapping[str, Json]:
        return {
            **self.row.model_dump(mode="json", exclude_defaults=True),
            "vectors": self.holds,
            "drop_identical_ids": self.drop_identical_ids,
        }

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {
            "corpus": task.corpus.digest,
            "shards": [shard.num_rows for shard in task.corpus.shards],
            self.artifact: self.row.encoding_inputs(device=device),
            "drop_identical_ids": self.drop_identical_ids,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseStage(CheckpointStage):
    """A sparse encoder (SPLADE): inner products of vocabulary weights."""

    row: SparseRow
    holds = "sparse vectors"
    artifact = "sparse-vectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class LateInteractionStage(CheckpointStage):
    """Late interaction (ColBERT): MaxSim of token vectors."""

    row: LateInteractionRow
    holds = "token vectors"
    artifact = "token-vectors"
