"""The protocols between the parts of a retrieval system, and the values that they pass.

No protocol wraps Ray: `distributed` and `serving` use Ray directly.

Shape letters: Q queries, B texts of a batch, D embedding size.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from r2med_ray.cuts import SideCuts
from r2med_ray.ranking_arrays import RankingArrays
from r2med_ray.sentences import Shares
from r2med_ray.types import DocId, Document, FloatMatrix, FloatVector, Query, Ranking, Run

Rankings: TypeAlias = Sequence[Ranking] | RankingArrays
"""A ranking for each of some queries, in their order."""

PreparedQueries = TypeVar("PreparedQueries", contravariant=True)


class Encoder(Protocol):
    """Turns texts into vectors."""

    @property
    def dim(self) -> int: ...

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (Q, D): row i is the vector of texts[i] after the encoder's query prompt."""
        ...

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        """Return float32 of shape (B, D): row i is the vector of documents[i] after the encoder's document prompt."""
        ...

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (B, D): row i is the vector of texts[i] without a prompt.

        Some published protocols embed expansions in this way.
        """
        ...


class Index(Protocol[PreparedQueries]):
    """The index of one shard, ready to be searched.

    Each kind of index takes queries in its own form: strings for BM25, a (Q, D) matrix for vectors.
    """

    def search(self, queries: PreparedQueries, k: int) -> Rankings:
        """Return up to k hits for each of the Q queries, in the order of `ranking.best`."""
        ...


@runtime_checkable
class SkippingIndex(Index[PreparedQueries], Protocol[PreparedQueries]):
    """An index that saves time if it is told which scores are too low to matter."""

    def search_above(self, queries: PreparedQueries, k: int, least_Q: FloatVector) -> Rankings:
        """Return what `search` returns, but of each query documents with lower scores than `least_Q` may be missing.

        `least_Q` is float32 of shape (Q,).
        """
        ...


@runtime_checkable
class ScoresCandidates(Protocol[PreparedQueries]):
    """The index of one shard that scores documents by their ids."""

    def score(self, queries: PreparedQueries, candidates: Sequence[Sequence[DocId]]) -> list[Ranking]:
        """Return those candidates of each of the Q queries that the shard has, in the order of `ranking.best`."""
        ...


class Retriever(Protocol):
    """Answers queries with ranked documents."""

    def retrieve(self, queries: Sequence[Query], *, k: int) -> Run:
        """Return a ranking for every query. The ranking is empty if no document matches."""
        ...


class PairScorer(Protocol):
    """Scores (query, document) pairs: a cross-encoder, or late interaction over token vectors."""

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one score per pair, in the order of the pairs; higher is more relevant. No pairs give []."""
        ...


@runtime_checkable
class CountsCuts(Protocol):
    """An encoder or a pair scorer that can say what it cut. A class that can't say leaves the method out."""

    def take_cuts(self) -> SideCuts | None:
        """Return what was cut on each side since the last call; None if that isn't known."""
        ...


def taken_cuts(model: object) -> SideCuts | None:
    """Return what a model cut since the last call; None if the model can't say."""
    return model.take_cuts() if isinstance(model, CountsCuts) else None


@runtime_checkable
class TellsSentences(Protocol):
    """A pair scorer that can say which sentences of a document its scores come from."""

    def take_sentences(self) -> list[Shares]:
        """Return the share of each sentence in the score of each pair of the last call; see `sentences.Shares`."""
        ...


class Candidates(NamedTuple):
    """The documents that a reranker orders for one query, in the order of the first stage."""

    query: Query
    documents: Sequence[Document]
    scores: Sequence[float]
    """Scores of the first stage, one per document."""


class Scorer(Protocol):
    """A row of the catalogue that scores pairs."""

    @property
    def name(self) -> str: ...
