"""The seams between the parts of a retrieval system. There is none over Ray.

Shape letters: Q queries, B texts of a batch, D embedding size, T tokens of a text.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from r2med_ray.types import Document, FloatMatrix, Query, QueryId, Ranking, Rewriting, Run

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


class Reranker(Protocol):
    def score(self, query: Query, documents: Sequence[Document]) -> list[float]:
        """Return one score per document, in order; higher is more relevant."""
        ...

    def score_all(self, work: Sequence[tuple[Query, Sequence[Document]]]) -> dict[QueryId, list[float]]:
        """Score the candidates of many queries, so that a server can batch across them."""
        ...


class QueryRewriter(Protocol):
    def rewrite(self, queries: Sequence[Query]) -> Rewriting:
        """Fill in expansions: same ids, texts and order."""
        ...


class TextGenerator(Protocol):
    """A language model. Live rewriters are built over it; replayed ones need none."""

    def generate(self, prompts: Sequence[str], *, max_tokens: int, seed: int) -> list[str]:
        """Return one completion per prompt, in order. An empty string is an answer."""
        ...
