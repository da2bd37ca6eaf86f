"""Sparse vectors of one shard: stored, and searched by exact inner products.

A score is the sum of query weight × document weight over the vocabulary entries that both have. The product of two
float32 numbers is exact in float64. Products are added up in float64, in ascending order of the entries, and the sum
is rounded to float32 once. So a score depends on the query and the document alone, not on shard, batch or thread.

A document that shares no entry with the query is no hit.

Shape letters: Q queries, N documents of the shard, V vocabulary entries, T entries of one query.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.errors import DataError
from r2med_ray.indexing.embedding import NAMED_IN_ERRORS
from r2med_ray.ranking import best_of_scores
from r2med_ray.storage.arrow import numbers, whole
from r2med_ray.types import DocId, FloatVector, Ranking

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class SparseVectors(NamedTuple):
    """The sparse vectors of a shard or of queries. Row i of `weights` belongs to `doc_ids[i]`."""

    doc_ids: list[str]
    weights: "csr_array"
    """float32, shape (N, V). V is only as large as the last entry that occurs needs."""


def sparse_table(
    rows: Sequence[int] | npt.NDArray[np.int64], ids: Sequence[str], weights_NV: "csr_array"
) -> pa.Table:
    """Return sparse vectors as columns row, doc_id, indices (int32, ascending), values (float32).

    Args:
        rows: the N rows of the corpus, or numbers of the queries.
        ids: N ids.
        weights_NV: float32, shape (N, V).

    Raises:
        DataError: there are not as many vectors as ids, or a weight isn't finite; names the ids.
    """
    if weights_NV.shape[0] != len(ids):
        raise DataError(f"the encoder returned {weights_NV.shape[0]} sparse vectors for {len(ids)} texts")
    weights_NV = weights_NV.sorted_indices()
    offsets = pa.array(weights_NV.indptr, pa.int32())
    bad = np.unique(np.repeat(np.arange(len(ids)), np.diff(weights_NV.indptr))[~np.isfinite(weights_NV.data)])
    if len(bad):
        named = ", ".join(repr(ids[position]) for position in bad[:NAMED_IN_ERRORS])
        raise DataError(f"{len(bad)} of {len(ids)} sparse vectors have a weight that is not finite, e.g. {named}")
    return pa.table(
        {
            "row": pa.array(np.asarray(rows, np.int64)),
            "doc_id": pa.array(ids, pa.string()),
            "indices": pa.ListArray.from_arrays(offsets, pa.array(weights_NV.indices, pa.int32())),
            "values": pa.ListArray.from_arrays(offsets, pa.array(weights_NV.data, pa.float32())),
        }
    )


def read_sparse(table: pa.Table) -> SparseVectors:
    """Return the vectors of a `sparse_table`."""
    from scipy.sparse import csr_array

    indices, values = whole(table["indices"]), whole(table["values"])
    entries = numbers(indices.flatten())
    shape = (table.num_rows, int(entries.max(initial=-1)) + 1)
    offsets = numbers(indices.offsets)  # int32: with int64, scipy would hold 12 bytes of an entry in place of 8
    offsets = offsets - offsets[0]
    return SparseVectors(table["doc_id"].to_pylist(), csr_array((numbers(values.flatten()), entries, offsets), shape))


class SparseIndex:
    """The index of one shard, ready to be searched with the sparse vectors of queries: 8 bytes per entry.

    Args:
        doc_ids: N ids.
        weights_NV: float32, shape (N, V), all finite.
    """

    def __init__(self, doc_ids: Sequence[DocId], weights_NV: "csr_array") -> None:
        self._doc_ids = tuple(doc_ids)
        self._weights_NV = weights_NV.tocsc()

    @classmethod
    def of_table(cls, table: pa.Table) -> "SparseIndex":
        """Return the index of a shard's `sparse_table`."""
        return cls(*read_sparse(table))

    def search(self, queries_QV: "csr_array", k: int) -> list[Ranking]:
        """Return up to k hits for each query, in the order of `ranking.best`. The queries' V may differ from the
        shard's.
        """
        scores = (
            self._scores(queries_QV.indices[start:stop], queries_QV.data[start:stop])
            for start, stop in pairwise(queries_QV.indptr)
        )
        return [best_of_scores(scores_N, self._doc_ids, k) for scores_N in scores]

    def _scores(self, entries_T: npt.NDArray[np.int32], weights_T: FloatVector) -> FloatVector:
        """Return float32 scores of shape (N,). A document that is no hit has -inf. The entries must ascend."""
        known_T = entries_T < self._weights_NV.shape[1]
        columns = self._weights_NV[:, entries_T[known_T]]
        scores_N: FloatVector = (columns @ weights_T[known_T].astype(np.float64)).astype(np.float32)
        scores_N[scores_N == 0] = -np.inf
        return scores_N


def split_rows(weights_BV: "csr_array") -> list["csr_array"]:
    """Return the rows as matrices of shape (1, V)."""
    return [weights_BV[[position]] for position in range(weights_BV.shape[0])]


def query_table(query_ids: Sequence[str], parts: Sequence[Sequence["csr_array"]]) -> pa.Table:
    """Return queries as a `sparse_table`.

    A query's vector is the mean of the vectors of its parts. The first part is the query itself. A generated text
    weighs as much as the query: each part's vector is brought to the Euclidean length of the first part's. So the
    vector of a single part stays as it is. A part without entries counts as zeros.

    Args:
        query_ids: Q ids.
        parts: for each query its parts, float32 of shape (1, V) each; the query is the first part.

    Raises:
        DataError: a weight isn't finite; names the queries.
    """
    from scipy.sparse import csr_array, vstack

    means = vstack([_mean(of_query) for of_query in parts], format="csr") if parts else csr_array((0, 1))
    return sparse_table(range(len(query_ids)), query_ids, means)


def read_queries(table: pa.Table) -> "csr_array":
    """Return the queries of a `query_table` in the form that an index takes: float32, shape (Q, V).

    V is only as large as the last entry that occurs needs.
    """
    return read_sparse(table).weights


def _mean(parts: Sequence["csr_array"]) -> "csr_array":
    from scipy.sparse import csr_array, vstack

    if len(parts) == 1:
        return parts[0]
    lengths_P = np.array([np.sqrt(np.square(part.data, dtype=np.float64).sum()) for part in parts])
    scales_P = np.divide(lengths_P[0], lengths_P, out=np.zeros(len(parts)), where=lengths_P > 0) / len(parts)
    return (csr_array(scales_P[np.newaxis]) @ vstack(parts, format="csr")).astype(np.float32)
