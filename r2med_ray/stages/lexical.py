"""BM25 as a first stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from r2med_ray.indexing.bm25 import BM25Row
from r2med_ray.indexing.keys import skipped_rows, terms_key
from r2med_ray.stages.first_stage import Choice
from r2med_ray.storage.artifacts import ArtifactKey, Json
from r2med_ray.types import Compat, Corpus, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalStage:
    """BM25."""

    row: BM25Row
    compat: Compat
    drop_identical_ids: bool
    holds = "terms"
    needs_model = False

    @classmethod
    def resolve(cls, row: BM25Row, choice: Choice) -> "LexicalStage":
        return cls(
            row=row.with_parameters(k1=choice.retriever.k1, b=choice.retriever.b),
            compat=choice.compat,
            drop_identical_ids=bool(choice.ignore_identical_ids),
        )

    @property
    def label(self) -> str:
        return self.row.name

    @property
    def published(self) -> str | None:
        return "bm25" if self.row.name == "bm25-r2med" else None

    @property
    def prepared_as(self) -> str:
        return f"{self.compat} {self.row.analyzer}"

    def artifacts(self, task: str, corpus: Corpus, device: str) -> Sequence[ArtifactKey]:
        return [
            terms_key(shard, skipped_rows(corpus, shard, self.compat), self.row.analyzer) for shard in corpus.shards
        ]

    def settings(self) -> Mapping[str, Json]:
        return {"variant": self.row.describe(), "drop_identical_ids": self.drop_identical_ids}

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {
            "corpus": task.corpus.digest,
            "bm25": self.row.inputs(),
            "compat": self.compat,
            "drop_identical_ids": self.drop_identical_ids,
            **({"cut": "file row"} if self.compat == "r2med" else {}),
        }
