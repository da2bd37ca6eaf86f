"""One vector per text as a first stage: a dense encoder or an embedding service, and the index of its vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from r2med_ray.indexing.keys import vectors_key
from r2med_ray.models.catalog.api_rows import ApiEncoderRow
from r2med_ray.models.catalog.rows import EncoderRow
from r2med_ray.stages.first_stage import Choice
from r2med_ray.storage.artifacts import ArtifactKey, Json
from r2med_ray.types import Compat, Corpus, Task

VectorRow = TypeVar("VectorRow", EncoderRow, ApiEncoderRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStage(Generic[VectorRow]):
    """Vectors and their index, whoever makes them."""

    row: VectorRow
    index: str
    compat: Compat
    drop_identical_ids: bool
    holds = "vectors"
    needs_model = True

    @classmethod
    def resolve(cls, row: VectorRow, choice: Choice) -> Self:
        drop = choice.ignore_identical_ids
        return cls(
            row=row.under(choice.compat).model_copy(update=choice.row_changes()),
            index=choice.retriever.index or "Flat",
            compat=choice.compat,
            drop_identical_ids=choice.compat == "r2med" if drop is None else drop,
        )

    @property
    def label(self) -> str:
        return self.row.name if self.index == "Flat" else f"{self.row.name}[{self.index}]"

    @property
    def published(self) -> str | None:
        return self.row.published if self.index == "Flat" else None

    @property
    def prepared_as(self) -> str:
        return self.row.model_dump_json()

    def artifacts(self, task: str, corpus: Corpus, device: str) -> Sequence[ArtifactKey]:
        inputs = self.row.encoding_inputs(task, device=device, side="document")
        return [vectors_key(shard, corpus.duplicates_in(shard), inputs) for shard in corpus.shards]

    def settings(self) -> Mapping[str, Json]:
        return {
            **self.row.model_dump(mode="json", exclude_defaults=True),
            "index": self.index,
            "drop_identical_ids": self.drop_identical_ids,
        }

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {
            "corpus": task.corpus.digest,
            "shards": [shard.num_rows for shard in task.corpus.shards],
            "encoder": self.row.encoding_inputs(task.name, device=device),
            "expansion_prompt": self.row.expansion_prompt,
            "index": self.index,
            "compat": self.compat,
            "drop_identical_ids": self.drop_identical_ids,
        }


class DenseStage(VectorStage[EncoderRow]):
    """An encoder and its vector index."""


class ApiStage(VectorStage[ApiEncoderRow]):
    """An embedding service and the index of its vectors."""

    needs_model = False
