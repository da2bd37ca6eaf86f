"""Vectors in fewer numbers or fewer bits: their first components alone, or fewer bits for each component.

A first pass compares codes. Its best candidates are then scored exactly, by vectors that stay in the store. The words
of the settings are MTEB's and sentence-transformers'.

Shape letters: Q queries, N documents of a shard, D components of a vector, C candidates of a query.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from r2med_ray.errors import ConfigError
from r2med_ray.indexing.codes import BITS, Codes, OutputDtype
from r2med_ray.ranking import best_of_scores
from r2med_ray.settings.retriever import RetrieverConfig
from r2med_ray.storage.keys import Json
from r2med_ray.types import DocId, FloatMatrix, Ranking
from r2med_ray.vectors import exact_products, unit_length

RESCORE_MULTIPLIER = 4
"""Candidates that are scored exactly, per document of a ranking, unless a benchmark file says otherwise."""


class Compression(NamedTuple):
    """How the vectors of an index are compressed."""

    embed_dim: int | None = None
    """Components that are kept of a vector; all if None."""

    output_dtype: OutputDtype = "float32"
    rescore_multiplier: int = 0
    """Candidates of the first pass per document of a ranking; 0 if the order of the codes stays."""

    clipping_margin: tuple[float, float] | None = None
    """The two quantiles of each component that are the ends of its range, for integers; its extremes if None."""

    @classmethod
    def asked(cls, retriever: RetrieverConfig) -> "Compression":
        """Return what a benchmark file says about one retriever."""
        given = retriever.rescore_multiplier
        multiplier = RESCORE_MULTIPLIER if given is None else given
        return cls(
            retriever.embed_dim,
            retriever.output_dtype or "float32",
            multiplier if retriever.output_dtype else 0,
            retriever.clipping_margin,
        )

    @property
    def words(self) -> tuple[str, ...]:
        """What is done, as a label says it; empty if nothing is."""
        dim = [f"embed_dim={self.embed_dim}"] if self.embed_dim else []
        codes = [] if self.output_dtype == "float32" else [self.output_dtype, f"rescore={self.rescore_multiplier}"]
        clipped = ["clipping_margin={:g}-{:g}".format(*self.clipping_margin)] if self.clipping_margin else []
        return (*dim, *codes, *clipped)

    def inputs(self) -> dict[str, Json]:
        """Return what a key and a report say about it: nothing of whole vectors, and of clipping only if some is."""
        given = {} if self == WHOLE else self._asdict()
        return {key: value for key, value in given.items() if key != "clipping_margin" or value}

    def held_share(self, stored: OutputDtype, *, more_bits: float = 0.0) -> float:
        """Return the share of what is stored that an index holds between searches.

        Args:
            stored: what a component is stored as.
            more_bits: what an index holds of each component beside its code.
        """
        return 1.0 if self.output_dtype == "float32" else (BITS[self.output_dtype] + more_bits) / BITS[stored]

    def num_bytes(self, dim: int) -> int:
        """Return the bytes of a document in the first pass, if whole vectors have so many components."""
        return -(-(self.embed_dim or dim) * BITS[self.output_dtype] // 8)


WHOLE = Compression()
"""Vectors that are compared as they are stored."""


def require_dimensions(name: str, embed_dim: int | None, dim: int | None) -> None:
    """Refuse to keep more components than vectors have; None is all of them, or a number that nobody knows.

    Raises:
        ConfigError: names the model and both numbers.
    """
    if embed_dim is not None and dim is not None and embed_dim > dim:
        raise ConfigError(
            f"{name}: `embed_dim` is {embed_dim}, and its vectors have {dim} dimensions; give at most {dim}"
        )


def cut_vectors(vectors_ND: FloatMatrix, embed_dim: int | None, *, unit: bool) -> FloatMatrix:
    """Return the first components of vectors, contiguous, and at unit length if that is asked for.

    Raises:
        ConfigError: the vectors have fewer components.
    """
    require_dimensions("stored vectors", embed_dim, vectors_ND.shape[1])
    kept_ND = np.ascontiguousarray(vectors_ND[:, :embed_dim])
    return unit_length(kept_ND) if unit else kept_ND


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """The vectors of a shard where they are stored. They are read for each search, and not held."""

    read: Callable[[], tuple[Sequence[DocId], FloatMatrix]]
    """Returns N ids, and float32 of shape (N, D)."""

    def search(self, queries_QD: FloatMatrix, k: int) -> list[Ranking]:
        """Refuse to look for candidates.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("stored vectors score the candidates that a search names, and find none")

    def score(self, queries_QD: FloatMatrix, candidates: Sequence[Sequence[DocId]]) -> list[Ranking]:
        """Return the candidates of each query that the shard has, with the float32 inner product of each pair."""
        doc_ids, vectors_ND = self.read()
        places = {doc_id: place for place, doc_id in enumerate(doc_ids)}
        ranked = []
        for query_D, wanted in zip(queries_QD, candidates, strict=True):
            kept = [doc_id for doc_id in wanted if doc_id in places]
            scores_C = exact_products(vectors_ND[[places[doc_id] for doc_id in kept]], query_D)
            ranked.append(best_of_scores(scores_C, kept, len(kept)))
        return ranked


@dataclass(frozen=True, slots=True)
class CompressedIndex:
    """The index of one shard: codes that are searched, and vectors that score what the codes found."""

    doc_ids: Sequence[DocId]
    codes: Codes
    stored: StoredVectors

    def search(self, queries_QD: FloatMatrix, k: int) -> list[Ranking]:
        """Return up to k documents for each query by their codes, in the order of `ranking.best`."""
        return [best_of_scores(scores_N, self.doc_ids, k) for scores_N in self.codes.scores(queries_QD)]

    def score(self, queries_QD: FloatMatrix, candidates: Sequence[Sequence[DocId]]) -> list[Ranking]:
        """Return the candidates that the shard has, scored exactly; see `StoredVectors.score`."""
        return self.stored.score(queries_QD, candidates)
