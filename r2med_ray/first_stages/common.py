"""What a benchmark file says about one retriever, and what most kinds of first stages have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.first_stage import ModelFacts, ShardedFirstStage, Ties, ToExplain
from r2med_ray.first_stages.explaining import read_by_model
from r2med_ray.models.catalog.devices import ONE_PASS, Dtype
from r2med_ray.readings import Given
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.retriever import RetrieverConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import Compat, OnBadDocument, Query, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRetriever:
    """What a benchmark file says about one retriever of a system."""

    retriever: RetrieverConfig
    rules: Rules
    dtype: Dtype | Literal["fastest"] | None = None
    """The dtype for all encoders; a dtype of the retriever itself takes its place."""

    on_bad_document: OnBadDocument = "error"

    def row_changes(self) -> dict[str, Any]:
        """Return the settings that override a model's row."""
        changes = {"dtype": self.retriever.dtype or self.dtype, "max_length": self.retriever.max_length}
        return {key: value for key, value in changes.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a benchmark says for all of its systems."""

    compat: Compat = "none"
    ignore_identical_ids: bool | None = None
    dtype: Dtype | Literal["fastest"] | None = None
    """The dtype of all encoders; a retriever's own takes its place."""

    depth: int = 100
    """Documents kept per query."""

    on_bad_document: OnBadDocument = "error"

    def wanted(self, retriever: RetrieverConfig, rules: Rules) -> WantedRetriever:
        """Return what the benchmark says about a retriever of a system with some rules."""
        return WantedRetriever(
            retriever=retriever, rules=rules, dtype=self.dtype, on_bad_document=self.on_bad_document
        )


def labelled(name: str, told: Sequence[str]) -> str:
    """Return the label of a row's first stage: its name, and in brackets what is searched otherwise than usual."""
    return f"{name}[{','.join(told)}]" if told else name


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonFirstStage:
    """What most kinds have in common that are searched shard by shard. A kind overrides what is different for it.

    The common case: all rows but duplicates are read, nothing is made of queries, a shard's index needs to know
    nothing of the other shards, the search is exact, the work costs nothing, there is no published result, and no
    model has facts.
    """

    rules: Rules
    on_bad_document: OnBadDocument = "error"
    """What happens to a document that can't be encoded. A kind that takes `skip` has to bear shards that lack rows,
    see `bad_documents`."""

    @property
    def ties(self) -> Ties:
        return "doc id"

    @property
    def exact(self) -> Self | None:
        return None

    @property
    def rescore_multiplier(self) -> int:
        return 0

    @property
    def held_share(self) -> float:
        return 1.0

    @property
    def published(self) -> str | None:
        return None

    @property
    def skipping(self) -> Mapping[str, Json]:
        """What `settings` and `inputs` say about documents that are left out; nothing if none are."""
        return {} if self.on_bad_document == "error" else {"on_bad_document": self.on_bad_document}

    @property
    def drop_identical_ids(self) -> bool:
        return self.rules.terms_drop_identical_ids

    def skip_rows(self, corpus: Corpus, shard: CorpusShard) -> tuple[int, ...]:
        return corpus.duplicates_in(shard)

    def rows_alone(self, corpus: Corpus, shard: CorpusShard, inputs: Mapping[str, Json]) -> tuple[int, ...]:
        """Return the rows of a shard that are encoded each in a call of its own, so that equal texts have one vector.

        These are the rows whose text other rows of the corpus have too, if the vectors of a call may depend on each
        other.

        Args:
            corpus: the whole corpus.
            shard: one of its shards.
            inputs: what the key says about the encoder.
        """
        return () if ONE_PASS.items() <= inputs.items() else shard.its(corpus.copied_rows)

    def pieces(self, shard: CorpusShard) -> int:
        """Return how many pieces a shard is made in; 1 where a table is of a whole shard."""
        return 1

    def pieces_in_key(self, shard: CorpusShard, inputs: Mapping[str, Json]) -> int:
        """Return the pieces that the key of a shard has to tell; 1 if no vector depends on others of its piece."""
        return 1 if ONE_PASS.items() <= inputs.items() else self.pieces(shard)

    def queries_key(self, task: str, queries: Sequence[Query], device: str) -> ArtifactKey | None:
        return None

    def text_asked(self, query: Query) -> str | None:
        return None

    def gather(self, store: ArtifactStore, task: Task, device: str) -> Any:
        return None

    def model_facts(self) -> ModelFacts:
        return ModelFacts()

    def explain(self: ShardedFirstStage, asked: ToExplain) -> Given:
        return read_by_model(self, asked)

    def cost(self, usage: Mapping[str, int]) -> str:
        return ""

    def usd(self, usage: Mapping[str, int]) -> float | None:
        return None
