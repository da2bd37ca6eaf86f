"""The seams between the parts of a retrieval system. There is none over Ray.

Shape letters: Q queries, B texts of a batch, D embedding size, T tokens of a text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from r2med_ray.types import Document, FloatMatrix, Query, Ranking, Reranking, Rewriting, Run

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


class Reranker(Protocol):
    def score_all(self, work: Sequence[Candidates]) -> Reranking:
        """Score the candidates of every query.

        All queries at once, so that a server can batch across them.
        """
        ...


class QueryRewriter(Protocol):
    def rewrite(self, queries: Sequence[Query]) -> Rewriting:
        """Fill in expansions: same ids, texts and order."""
        ...


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
