"""Approximate search with FAISS: an index is trained once, on a sample of all shards, and each shard fills a copy.

So the cells of an inverted file and the codes of a quantiser are the same in all shards, a shard may be smaller than
what FAISS trains on, and an inverted file over shards finds what one over the whole corpus finds.

Shape letters: Q queries, N documents, D embedding size, C neighbours of a query, S documents of the sample.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import faiss
import numpy as np

from r2med_ray.errors import ConfigError
from r2med_ray.indexing.exact import Neighbours
from r2med_ray.indexing.factory import description_of, parameters_of
from r2med_ray.types import FloatMatrix, FloatVector


@dataclass(frozen=True, slots=True)
class ApproximateSearch:
    """A filled FAISS index. Neighbours and scores are those that FAISS returns.

    The last bits of a score may depend on the other queries of a search.
    """

    index: faiss.Index

    @property
    def shape(self) -> tuple[int, int]:
        return self.index.ntotal, self.index.d

    @classmethod
    def fill(cls, vectors_ND: FloatMatrix, factory: str, trained: bytes | None = None) -> "ApproximateSearch":
        """Put the vectors of a shard into an index.

        Args:
            vectors_ND: contiguous float32.
            factory: FAISS factory string, which may end in search parameters: `;name=value,...`.
            trained: what `train` returned; None trains on the vectors themselves, if there is something to learn.

        Raises:
            ConfigError: FAISS doesn't know the factory string, or can't train such an index with these vectors.
        """
        with _refused(factory, vectors_ND):
            index = _new(factory, vectors_ND) if trained is None else _read(trained)
            if not index.is_trained:
                index.train(vectors_ND)
            index.add(vectors_ND)
            return cls(_with_parameters(index, factory))

    @classmethod
    def from_bytes(cls, content: bytes | memoryview, factory: str) -> "ApproximateSearch":
        """Return the index that `to_bytes` was called on, with the search parameters of a factory string.

        Raises:
            ConfigError: the index has no such parameters.
        """
        index = _read(content)
        with _refused(factory, np.empty((index.ntotal, index.d), np.float32)):
            return cls(_with_parameters(index, factory))

    def to_bytes(self) -> bytes:
        """Return the index in FAISS's own format."""
        return faiss.serialize_index(self.index).tobytes()

    def search(self, queries_QD: FloatMatrix, k: int, least_Q: FloatVector | None = None) -> list[Neighbours]:
        """Return up to k documents of each query, whatever their scores.

        The −1 that FAISS puts in empty places is removed.
        """
        scores_QC, positions_QC = self.index.search(queries_QD, k)
        return [
            Neighbours(positions_C[positions_C >= 0], scores_C[positions_C >= 0])
            for positions_C, scores_C in zip(positions_QC, scores_QC, strict=True)
        ]


def needs_training(factory: str, dim: int) -> bool:
    """Return whether an index of vectors with `dim` components has something to learn from them. A graph hasn't.

    Raises:
        ConfigError: FAISS doesn't know the factory string.
    """
    like_these = np.empty((0, dim), np.float32)
    with _refused(factory, like_these):
        return not _new(factory, like_these).is_trained


def train(sample_SD: FloatMatrix, factory: str) -> bytes:
    """Return an empty index that was trained on contiguous float32 vectors, in FAISS's own format.

    Raises:
        ConfigError: FAISS doesn't know the factory string, or can't train such an index with these vectors.
    """
    with _refused(factory, sample_SD):
        index = _new(factory, sample_SD)
        index.train(sample_SD)
        return faiss.serialize_index(index).tobytes()


def _new(factory: str, vectors_ND: FloatMatrix) -> faiss.Index:
    return faiss.index_factory(vectors_ND.shape[1], description_of(factory), faiss.METRIC_INNER_PRODUCT)


def _read(content: bytes | memoryview) -> faiss.Index:
    return faiss.deserialize_index(np.frombuffer(content, np.uint8))


def _with_parameters(index: faiss.Index, factory: str) -> faiss.Index:
    parameters = parameters_of(factory)
    if parameters:
        faiss.ParameterSpace().set_index_parameters(index, parameters)  # type: ignore[arg-type]  # C++ overload
    return index


@contextmanager
def _refused(factory: str, vectors_ND: FloatMatrix) -> Iterator[None]:
    """Turn what FAISS says against an index of vectors into an error that names both."""
    try:
        yield
    except RuntimeError as error:
        raise ConfigError(
            f"index {factory!r} can't be built from {len(vectors_ND)} vectors of {vectors_ND.shape[1]} "
            f"dimensions: {error}"
        ) from error
