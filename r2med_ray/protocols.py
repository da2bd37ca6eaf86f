"""The seams between the parts of a retrieval system. There is none over Ray.

Shape letters: Q queries, B texts of a batch, D embedding size, T tokens of a text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifacts import ArtifactKey, ArtifactStore, Json
from r2med_ray.types import Corpus, CorpusShard, Document, FloatMatrix, Query, Ranking, Run, Task

PreparedQueries = TypeVar("PreparedQueries", contravariant=True)


class Encoder(Protocol):
    """Texts to vectors."""

    @property
    def dim(self) -> int: ...

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (Q, D), row i for texts[i], with the row's query prompt."""
        ...

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        """Return float32 of shape (B, D), row i for documents[i], with the row's document prompt."""
        ...

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (B, D) without any prompt: some published protocols embed expansions so."""
        ...


class Index(Protocol[PreparedQueries]):
    """One shard, ready to be searched.

    What a query is prepared into belongs to the kind of index: strings for BM25, a (Q, D) matrix for vectors.
    """

    def search(self, queries: PreparedQueries, k: int) -> list[Ranking]:
        """Return up to k hits for each of the Q queries, in the order of `ranking.best`."""
        ...


class Retriever(Protocol):
    """What answers queries with ranked documents."""

    def retrieve(self, queries: Sequence[Query], *, k: int) -> Run:
        """Return a ranking for every query; an empty one where nothing matches."""
        ...


class PairScorer(Protocol):
    """Scores (query, document) pairs: a cross-encoder, or late interaction over token vectors."""

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one score per pair, in order; higher is more relevant. [] for no pairs."""
        ...


class Candidates(NamedTuple):
    """What a reranker orders for one query, in the order of the first stage."""

    query: Query
    documents: Sequence[Document]
    scores: Sequence[float]
    """The first stage's, one per document."""


MadeBy: TypeAlias = Literal["encode", "tokenize", "ask a service"]
"""What makes the artefacts of a first stage: a model on the machine, processor time, or a service elsewhere."""

Work: TypeAlias = MadeBy | Literal["nothing"]
"""What preparing a first stage takes; nothing where it answers by itself."""

Ties: TypeAlias = Literal["doc id", "file row"]
"""What decides among equal scores at the cut of a ranking; see `retrieval.file_order`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Computing:
    """What a worker computes with."""

    device: str = "cpu"
    """`cpu` or `cuda`."""

    threads: int = 1
    token_budget: int = 16_384
    """Padded tokens of one forward pass."""


class Maker(Protocol):
    """What turns documents and queries into stored tables: loaded once per worker, then called for many shards.

    A maker that inherits from this class makes nothing of queries and counts nothing, unless it says otherwise.
    """

    def make_shard(
        self, task: str, documents: Sequence[Document], rows: Sequence[int] | npt.NDArray[np.int64]
    ) -> Mapping[str, pa.Table]:
        """Return file name → table for the documents of one shard, which stand in these rows of the corpus.

        Raises:
            DataError: a number is not finite; names the documents.
        """
        ...

    def make_queries(self, task: str, queries: Sequence[Query], rules: Rules) -> Mapping[str, pa.Table]:
        """Return file name → table for queries, one row per query in their order; no file where nothing is stored.

        The rules are those of whoever asks: stages that share a maker may differ in them.
        """
        return {}

    def take_usage(self) -> Mapping[str, int]:
        """Return what a service counted since the last call; nothing for a model that runs here."""
        return {}


class StageFacts(Protocol):
    """What every first stage says about itself. A first stage is hashable by value, and cheap to build."""

    @property
    def row(self) -> object:
        """Its entry in the catalogue."""
        ...

    @property
    def rules(self) -> Rules: ...

    @property
    def label(self) -> str:
        """What tables and logs call it."""
        ...

    @property
    def published(self) -> str | None:
        """The key of R2MED's published results; None where it has none."""
        ...

    @property
    def artifact_group(self) -> str:
        """Stages of one kind that agree in it share what is made of a corpus, so one model serves them all."""
        ...

    @property
    def artifact_label(self) -> str:
        """What its artefacts hold, e.g. `vectors`."""
        ...

    @property
    def drop_identical_ids(self) -> bool:
        """Whether a document whose id is the query's is left out."""
        ...

    def settings(self) -> Mapping[str, Json]:
        """Return what a reader of the report wants to know about it."""
        ...

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        """Return everything about corpus and retriever that changes a run."""
        ...


class ShardedStage(StageFacts, Protocol):
    """A first stage that is prepared, indexed and searched shard by shard; with the pure callables of its kind.

    No callable knows a cluster: `distributed` calls them in workers, `workbench.in_process` in its own process.
    """

    @property
    def work(self) -> MadeBy: ...

    @property
    def ties(self) -> Ties: ...

    def skip_rows(self, corpus: Corpus, shard: CorpusShard) -> tuple[int, ...]:
        """Return the rows of a shard that it doesn't read."""
        ...

    def shard_key(self, task: str, corpus: Corpus, shard: CorpusShard, device: str) -> ArtifactKey:
        """Return the key of what is made of a shard before the first search."""
        ...

    def queries_key(self, task: str, queries: Sequence[Query], device: str) -> ArtifactKey | None:
        """Return the key of what is made of queries before a search; None where nothing is."""
        ...

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        """Load what makes the tables of shards and queries into this process."""
        ...

    def gather(self, store: ArtifactStore, task: Task, device: str) -> Any:
        """Return what every shard's index needs to know of the whole corpus; None where that is nothing."""
        ...

    def load_index(
        self, store: ArtifactStore, task: Task, shard: CorpusShard, gathered: Any, device: str
    ) -> Index[Any]:
        """Build or load the index of one shard out of what was made of it."""
        ...

    def prepare(self, store: ArtifactStore, task: Task, queries: Sequence[Query], device: str) -> Any:
        """Return what its indexes are asked, out of what was made of the queries."""
        ...

    def cost(self, usage: Mapping[str, int]) -> str:
        """Return what a service's work cost, for people; empty where nothing was counted.

        Args:
            usage: sums of `Maker.take_usage`.
        """
        ...


class DirectStage(StageFacts, Protocol):
    """A first stage that answers by itself: nothing is made of the corpus, and nothing is opened."""

    @property
    def work(self) -> Literal["nothing"]: ...

    def find(self, task: Task, queries: Sequence[Query], k: int) -> Run:
        """Return the best k documents of every query.

        Raises:
            DataError: a query can't be answered; names it.
        """
        ...


FirstStage: TypeAlias = ShardedStage | DirectStage
"""A retriever with all its settings. `stage.work == "nothing"` tells a type checker which of the two it is."""


Message: TypeAlias = Mapping[str, str]
"""`role` and `content`, as in OpenAI's chat interface."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """A conversation that a language model is to continue."""

    unit: str
    """What it is about, for errors, e.g. "query '7'"."""

    messages: tuple[Message, ...]
    seed: int
    stop: tuple[str, ...] = ()
    """Texts that end the answer; none of them is part of it."""

    shorter: tuple[tuple[Message, ...], ...] = ()
    """What is sent in its place, in turn, where the conversation is too long for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a language model wrote."""

    text: str
    """All of it, or what follows the reasoning where the server took them apart. May be empty."""

    reasoning: str
    """What the server called reasoning; empty where it doesn't take them apart."""

    finish_reason: str
    """`stop`, `length`, ... as the server said it."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    shortened: int = 0
    """Which of the conversations was answered: 0 the whole one, i the i-th of `shorter`."""

    seconds: float = field(default=0.0, compare=False)
    """From the request that was answered to its last word."""


class LanguageModel(Protocol):
    """A row of the catalogue as a part sees it: what it is asked about, and what names its texts."""

    @property
    def name(self) -> str: ...

    @property
    def answer_format(self) -> str:
        """How its reasoning and its answer are told apart; a name of `rewriting.answers.FORMATS`."""
        ...

    def generation_inputs(self) -> Mapping[str, Any]:
        """Return everything about model and sampling, except seeds, that changes a text, for artefact keys."""
        ...


class Scorer(Protocol):
    """A row of the catalogue that scores pairs."""

    @property
    def name(self) -> str: ...


class TextGenerator(Protocol):
    """A language model. Live rewriters are built over it; replayed ones need none."""

    def inputs(self) -> Mapping[str, Any]:
        """Return everything about model and sampling, except seeds, that changes a text, for artefact keys."""
        ...

    def generate(
        self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        """Return one completion per prompt, in order.

        Args:
            prompts: the conversations.
            keep: gets each completion with its prompt's position as soon as it is there, from any thread, several at
                once; what it has got isn't lost when another prompt fails.

        Raises:
            StageError: prompts failed for good; names their units.
        """
        ...
