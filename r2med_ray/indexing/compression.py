"""Vectors in fewer numbers or fewer bits: their first components alone, a byte for each component, or a bit.

A first pass compares codes. Its best candidates are then scored exactly, by vectors that stay in the store. Codes are
compared in whole numbers, so no shard, batch or thread changes a candidate. The codes are those of
`quantize_embeddings` in sentence-transformers. The words of the settings are MTEB's and sentence-transformers'.

Shape letters: Q queries, N documents of a shard, D components of a vector, C candidates of a query.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.errors import ConfigError
from r2med_ray.ranking import best_of_scores
from r2med_ray.types import DocId, FloatMatrix, FloatVector, Ranking
from r2med_ray.vectors import exact_products, unit_length

OutputDtype: TypeAlias = Literal["float32", "int8", "binary"]

RESCORE_MULTIPLIER = 4
"""Candidates that are scored exactly, per document of a ranking, unless a benchmark file says otherwise."""

QUERY_LEVELS = 2.0**30
"""Largest whole number of a query's weight. Its products with codes, summed over 2¹⁵ components, stay within 2⁵³. Up
to there, float64 adds whole numbers exactly, in any order."""

QUERIES_AT_ONCE = 32
ROWS_AT_ONCE = 65_536


class Compression(NamedTuple):
    """How the vectors of an index are compressed."""

    embed_dim: int | None = None
    """Components that are kept of a vector; all if None."""

    output_dtype: OutputDtype = "float32"
    rescore_multiplier: int = 0
    """Candidates of the first pass per document of a ranking; 0 if the order of the codes stays."""

    @property
    def words(self) -> tuple[str, ...]:
        """What is done, as a label says it; empty if nothing is."""
        dim = [f"embed_dim={self.embed_dim}"] if self.embed_dim else []
        codes = [] if self.output_dtype == "float32" else [self.output_dtype, f"rescore={self.rescore_multiplier}"]
        return (*dim, *codes)

    def num_bytes(self, dim: int) -> int:
        """Return the bytes of a document in the first pass, if whole vectors have so many components."""
        kept = self.embed_dim or dim
        return {"float32": 4 * kept, "int8": kept, "binary": -(-kept // 8)}[self.output_dtype]


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


def ranges_of(shards: Iterator[FloatMatrix]) -> FloatMatrix:
    """Return the smallest and the largest value of each component over all shards: float32, shape (2, D)."""
    of_shards = [(vectors_ND.min(axis=0), vectors_ND.max(axis=0)) for vectors_ND in shards if len(vectors_ND)]
    if not of_shards:
        return np.zeros((2, 0), np.float32)
    lowest, highest = zip(*of_shards, strict=True)
    return np.stack([np.min(lowest, axis=0), np.max(highest, axis=0)])


class Codes(Protocol):
    """The compressed vectors of a shard."""

    def scores(self, queries_QD: FloatMatrix) -> Iterator[FloatVector]:
        """Yield the scores of the N documents for each query: float32, shape (N,); higher is nearer."""
        ...


class Int8Codes:
    """One byte per component: the number of the 256th part of the component's range that a value lies in.

    A score is the inner product of the query with the values that the codes stand for. The query's weights are whole
    numbers up to `QUERY_LEVELS`.

    Args:
        vectors_ND: float32.
        ranges_2D: see `ranges_of`; over the whole corpus, so that shards share the codes.
    """

    def __init__(self, vectors_ND: FloatMatrix, ranges_2D: FloatMatrix) -> None:
        starts_D = ranges_2D[0]
        steps_D = (ranges_2D[1] - starts_D) / 255
        self._steps_D = np.where(steps_D == 0, 1, steps_D)
        self._zeros_D = 128 * self._steps_D.astype(np.float64) + starts_D
        levels_ND = np.clip(np.floor((vectors_ND - starts_D) / self._steps_D), 0, 255)
        self.codes_ND = (levels_ND - 128).astype(np.int8)

    def scores(self, queries_QD: FloatMatrix) -> Iterator[FloatVector]:
        for start in range(0, len(queries_QD), QUERIES_AT_ONCE):
            yield from self._scores(queries_QD[start : start + QUERIES_AT_ONCE].astype(np.float64))

    def _scores(self, queries_QD: npt.NDArray[np.float64]) -> Iterator[FloatVector]:
        weights_QD = queries_QD * self._steps_D
        largest_Q = np.abs(weights_QD).max(axis=1)
        scales_Q = np.where(largest_Q == 0, 1, largest_Q) / QUERY_LEVELS
        whole_QD = np.rint(weights_QD / scales_Q[:, np.newaxis])
        sums_QN = np.empty((len(queries_QD), len(self.codes_ND)))
        for start in range(0, len(self.codes_ND), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            sums_QN[:, rows] = whole_QD @ self.codes_ND[rows].astype(np.float64).T
        offsets_Q = np.vecdot(queries_QD, self._zeros_D)
        for sums_N, scale, offset in zip(sums_QN, scales_Q, offsets_Q, strict=True):
            yield (sums_N * scale + offset).astype(np.float32)


class BinaryCodes:
    """One bit per component: whether a value is above 0. A score is the inner product of the signs, from -D to D.

    Args:
        vectors_ND: float32.
    """

    def __init__(self, vectors_ND: FloatMatrix) -> None:
        self._dim = vectors_ND.shape[1]
        self.codes_NW = _packed(vectors_ND)

    def scores(self, queries_QD: FloatMatrix) -> Iterator[FloatVector]:
        for query_W in _packed(queries_QD):
            different_N = np.bitwise_count(self.codes_NW ^ query_W).sum(axis=1, dtype=np.int64)
            yield (self._dim - 2 * different_N).astype(np.float32)


def _packed(vectors_ND: FloatMatrix) -> npt.NDArray[np.uint64]:
    """Return the signs of vectors as bits, in words of 64 bits that end in zeros."""
    bits_NB = np.packbits(vectors_ND > 0, axis=1)
    return np.pad(bits_NB, ((0, 0), (0, -bits_NB.shape[1] % 8))).view(np.uint64)


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
