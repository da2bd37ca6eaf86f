"""What BM25 needs to know: the terms of one shard, and the document frequencies and lengths of the whole corpus.

Shards are counted by themselves and the counts are added as integers, so that every shard is scored with the same
N, document frequencies and average length, however the corpus was cut.

Shape letters: N documents (rows) of a shard, V terms of its vocabulary, P postings: pairs of a term and a document
that has it.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.errors import ArtifactError
from r2med_ray.indexing.analysis import normalize
from r2med_ray.indexing.words import tokenize

IntVector = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardTerms:
    """The terms of a shard by term: which rows have it and how often. Depends on no BM25 setting."""

    num_documents: int
    terms: tuple[str, ...]
    """V terms, ascending by code point."""

    offsets: npt.NDArray[np.int64]
    """int64, shape (V + 1,): the postings of term i are `offsets[i]:offsets[i + 1]`."""

    rows: npt.NDArray[np.int32]
    """int32, shape (P,): ascending within a term."""

    counts: npt.NDArray[np.int32]
    """int32, shape (P,): how often the term stands in the row."""

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """int64, shape (N,): the number of terms of each document, repeats included."""
        return np.bincount(self.rows, weights=self.counts, minlength=self.num_documents).astype(np.int64)
