"""What a first stage is: a retriever with all its settings, and the pure callables of its kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.cuts import SideCuts
from r2med_ray.protocols import Index
from r2med_ray.readings import Given
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import Document, OnBadDocument, Query, Run, Task

if TYPE_CHECKING:
    from r2med_ray.settings.resources import EncodeResources

MadeBy: TypeAlias = Literal["encode", "tokenize", "ask a service"]
"""How the artefacts of a first stage are made: `encode` takes a model on the cluster, `tokenize` takes CPU time, and
`ask a service` takes a service elsewhere."""

Work: TypeAlias = MadeBy | Literal["nothing"]
"""How a first stage is prepared; `nothing` if it answers without preparation."""

Ties: TypeAlias = Literal["doc id", "file row"]
"""What decides among equal scores at the cut of a ranking; see `retrieval.file_order`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Computing:
    """The device and the limits that a worker computes with."""

    device: str = "cpu"
    """`cpu` or `cuda`."""

    threads: int = 1
    token_budget: int = 16_384
    """Padded tokens of one forward pass on a GPU."""

    gpus: float = 1.0
    """GPUs of the worker: a part of one if several workers share it."""

    kv_cache_gib: int = 4
    """GiB of memory for keys and values where vLLM encodes on a CPU."""

    asks: bool = True
    """Whether services are asked. If not, what is made holds no vectors of theirs, and must not be stored."""

    @classmethod
    def of(cls, encode: "EncodeResources", *, device: str, threads: int, gpus: float = 1.0) -> Self:
        """Return what an encoding worker computes with: what a benchmark file says, on this device."""
        return cls(
            device=device,
            threads=threads,
            token_budget=encode.token_budget,
            gpus=gpus,
            kv_cache_gib=encode.kv_cache_gib,
        )


class Maker(Protocol):
    """Turns documents and queries into tables that are stored. A worker loads it once and calls it for many shards.

    A class that inherits from this one makes no tables of queries and counts nothing, unless it overrides
    `make_queries`, `take_usage` and `take_cuts`.
    """

    def make_shard(
        self, task: str, documents: Sequence[Document], rows: Sequence[int] | npt.NDArray[np.int64]
    ) -> Mapping[str, pa.Table]:
        """Return file name → table for the documents of one shard; `rows` are their row numbers in the corpus.

        Raises:
            DataError: a number is not finite; names the documents.
        """
        ...

    def make_queries(self, task: str, queries: Sequence[Query], rules: Rules) -> Mapping[str, pa.Table]:
        """Return file name → table for queries: one row per query, in their order. No file if nothing is stored.

        The rules are those of the first stage that asks, because others that share a maker may have other rules.
        """
        return {}

    def take_usage(self) -> Mapping[str, int]:
        """Return the counts of a service since the last call; an empty mapping for a model that runs here."""
        return {}

    def take_cuts(self) -> SideCuts | None:
        """Return what was cut off the texts since the last call; None if that isn't known."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What the model cards of other benchmarks ask about a first stage's model."""

    vectors: Literal["none", "dense", "sparse", "late-interaction"] = "none"
    checkpoint: str | None = None
    revision: str | None = None
    similarity: Literal["cosine", "dot"] | None = None
    max_length: int | None = None
    """Tokens kept of a document."""

    has_prompts: bool = False


class ToExplain(NamedTuple):
    """What a first stage is asked to explain, and what it may need for that."""

    store: ArtifactStore
    """It may have what was made of the corpus. Nothing is written."""

    task: Task
    """Is searched."""

    queries: Sequence[Query]
    """One query, as often as it is searched for, each time with the texts that are searched together."""

    document: Document | None
    """A document of the corpus, if one is shown."""

    computing: Computing
    """What this process computes with."""


class FirstStageFacts(Protocol):
    """What every first stage says about itself. A first stage is hashable by value, and cheap to build."""

    @property
    def row(self) -> object:
        """The first stage's row in the catalogue."""
        ...

    @property
    def rules(self) -> Rules: ...

    @property
    def label(self) -> str:
        """The first stage's name in tables and logs."""
        ...

    @property
    def published(self) -> str | None:
        """The first stage's key in R2MED's published results; None if it has no published results."""
        ...

    @property
    def artifact_group(self) -> str:
        """The name of a group of first stages. First stages of one kind and group share the artefacts of a corpus.

        So one model serves all first stages of the group.
        """
        ...

    @property
    def artifact_label(self) -> str:
        """What the first stage's artefacts hold, e.g. `vectors`."""
        ...

    @property
    def drop_identical_ids(self) -> bool:
        """Whether a document whose id is the query's is left out."""
        ...

    def settings(self) -> Mapping[str, Json]:
        """Return the settings of the first stage that a report shows."""
        ...

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        """Return everything about corpus and retriever that changes a run."""
        ...

    def model_facts(self) -> ModelFacts: ...

    def explain(self, asked: ToExplain) -> Given:
        """Return what the first stage is given, said by the code that reads it for a benchmark.

        Raises:
            R2MedError: the model isn't here, or can't read the texts.
        """
        ...


class ShardedFirstStage(FirstStageFacts, Protocol):
    """A first stage that is prepared, indexed and searched shard by shard.

    A sharded first stage has the pure callables of its kind. No callable knows a cluster: `distributed` calls them in
    workers, `workbench.in_process` calls them in its own process.
    """

    @property
    def work(self) -> MadeBy: ...

    @property
    def ties(self) -> Ties: ...

    @property
    def on_bad_document(self) -> OnBadDocument:
        """What happens to a document that can't be encoded. `skip` changes the inputs of its runs."""
        ...

    @property
    def exact(self) -> "ShardedFirstStage | None":
        """The same first stage with exact search, which an approximate search is checked by; None if it is exact."""
        ...

    @property
    def rescore_multiplier(self) -> int:
        """How many candidates per document of a ranking the indexes find, and then score again; 0 if they don't."""
        ...

    @property
    def held_share(self) -> float:
        """The share of what is stored of a shard that its index holds between searches."""
        ...

    def skip_rows(self, corpus: Corpus, shard: CorpusShard) -> tuple[int, ...]:
        """Return the rows of a shard that the first stage doesn't read."""
        ...

    def pieces(self, shard: CorpusShard) -> int:
        """Return how many pieces a shard is made in, each of which is a call of `Maker.make_shard`.

        If there are several, the tables of a shard are those of its pieces, one behind the other.
        """
        ...

    def shard_key(self, task: str, corpus: Corpus, shard: CorpusShard, device: str) -> ArtifactKey:
        """Return the key of the artefact that is made of a shard before the first search."""
        ...

    def queries_key(self, task: str, queries: Sequence[Query], device: str) -> ArtifactKey | None:
        """Return the key of the artefact that is made of queries before a search; None if nothing is made."""
        ...

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        """Load the maker of the tables of shards and queries into this process."""
        ...

    def gather(self, store: ArtifactStore, task: Task, device: str) -> Any:
        """Return what the index of each shard needs to know about the whole corpus; None if it needs nothing."""
        ...

    def load_index(
        self, store: ArtifactStore, task: Task, shard: CorpusShard, gathered: Any, device: str
    ) -> Index[Any]:
        """Build or load the index of one shard from the artefact of that shard."""
        ...

    def text_asked(self, query: Query) -> str | None:
        """Return the text that the indexes are asked; None if a model reads the query first."""
        ...

    def prepare(self, store: ArtifactStore, task: Task, queries: Sequence[Query], device: str) -> Any:
        """Return queries in the form that the indexes take, made from the artefact of the queries."""
        ...

    def cost(self, usage: Mapping[str, int]) -> str:
        """Return the cost of a service's work as a text for people; an empty text if nothing was counted.

        Args:
            usage: sums of `Maker.take_usage`.
        """
        ...

    def usd(self, usage: Mapping[str, int]) -> float | None:
        """Return what a service's work cost in US dollars; None if nothing was counted or no price is known.

        Args:
            usage: as one artefact counts it, see `Maker.take_usage`.
        """
        ...


class DirectFirstStage(FirstStageFacts, Protocol):
    """A first stage that answers without preparation: nothing is made of the corpus, and no index is opened."""

    @property
    def work(self) -> Literal["nothing"]: ...

    def find(self, task: Task, queries: Sequence[Query], k: int) -> Run:
        """Return the best k documents of every query.

        Raises:
            DataError: a query can't be answered; names the query.
        """
        ...


FirstStage: TypeAlias = ShardedFirstStage | DirectFirstStage
"""A retriever with all its settings. `first_stage.work == "nothing"` tells a type checker which of the two it is."""
