"""The inner-product index of one shard: exact, or approximate by a FAISS factory string.

Shape letters: Q queries, N documents, D embedding size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.indexing.approximate import ApproximateSearch
from r2med_ray.indexing.exact import ExactSearch
from r2med_ray.indexing.factory import EXACT
from r2med_ray.ranking_arrays import RankingArrays
from r2med_ray.types import DocId, FloatMatrix, FloatVector


@dataclass(frozen=True, slots=True)
class DenseIndex:
    """The index of one shard, ready to be searched with the vectors of queries."""

    doc_ids: tuple[DocId, ...]
    vectors: ExactSearch | ApproximateSearch

    def __post_init__(self) -> None:
        if len(self.doc_ids) != self.vectors.shape[0]:
            raise DataError(f"{len(self.doc_ids)} ids for {self.vectors.shape[0]} vectors")

    @classmethod
    def build(
        cls,
        doc_ids: Sequence[DocId],
        vectors_ND: npt.NDArray[np.floating],
        factory: str = EXACT,
        trained: bytes | None = None,
    ) -> "DenseIndex":
        """Build the index of a shard.

        Args:
            doc_ids: N ids.
            vectors_ND: any float dtype and memory layout; searched as float32. For cosine they have unit length.
            factory: `Flat` is exact. The index of any other FAISS factory string is filled with the vectors. Search
                parameters may follow a semicolon: `IVF64,Flat;nprobe=8`. Without them, FAISS's own hold; see
                `factory.with_search_parameters`.
            trained: what `approximate.train` returned for this factory string; None trains on the shard.

        Raises:
            DataError: there are not as many ids as vectors, or a vector isn't finite.
            ConfigError: FAISS doesn't know the factory string, or can't train its index with these vectors.
        """
        vectors_ND = _as_matrix(vectors_ND, "document")
        exact = factory == EXACT or not len(vectors_ND)
        if exact:
            return cls(tuple(doc_ids), ExactSearch(vectors_ND))
        return cls(tuple(doc_ids), ApproximateSearch.fill(vectors_ND, factory, trained))

    def search_above(self, queries_QD: npt.NDArray[np.floating], k: int, least_Q: FloatVector) -> RankingArrays:
        """Return what `search` returns, but of each query documents with lower scores than `least` may be missing."""
        return self._search(queries_QD, k, least_Q)

    def search(self, queries_QD: npt.NDArray[np.floating], k: int) -> RankingArrays:
        """Return up to k documents for each query, in the order of `ranking.best`.

        Args:
            queries_QD: any float dtype and memory layout.
            k: length of a ranking.

        Raises:
            DataError: the queries have another dimension than the documents, or a query isn't finite.
        """
        return self._search(queries_QD, k)

    def _search(
        self, queries_QD: npt.NDArray[np.floating], k: int, least_Q: FloatVector | None = None
    ) -> RankingArrays:
        queries_QD = _as_matrix(queries_QD, "query", self.vectors.shape[1])
        if not self.doc_ids or not len(queries_QD) or k < 1:
            return RankingArrays.of([()] * len(queries_QD))
        return RankingArrays.of_positions(self.doc_ids, self.vectors.search(queries_QD, k, least_Q)).best(k)

    def to_bytes(self) -> bytes:
        """Return a trained index in FAISS's own format. An exact index has none: its vectors are stored already.

        Raises:
            ConfigError: the index is exact.
        """
        if isinstance(self.vectors, ExactSearch):
            raise ConfigError("an exact index is its vectors; there is nothing else to store")
        return self.vectors.to_bytes()

    @classmethod
    def from_bytes(cls, doc_ids: Sequence[DocId], content: bytes | memoryview, factory: str) -> "DenseIndex":
        """Return the index that `to_bytes` was called on, with the search parameters of a factory string.

        Raises:
            ConfigError: the index has no such parameters.
        """
        return cls(tuple(doc_ids), ApproximateSearch.from_bytes(content, factory))


def _as_matrix(values: npt.NDArray[np.floating], what: str, dim: int | None = None) -> FloatMatrix:
    """Return values as contiguous float32, shape (rows, dim)."""
    if values.ndim != 2 or dim not in (None, values.shape[1]):
        raise DataError(f"{what} vectors have shape {values.shape}, expected (any number, {dim or 'dimensions'})")
    with np.errstate(over="ignore"):
        matrix = np.ascontiguousarray(values, np.float32)
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise DataError(f"{len(bad)} of {len(matrix)} {what} vectors are not finite, the first is number {bad[0]}")
    return matrix
