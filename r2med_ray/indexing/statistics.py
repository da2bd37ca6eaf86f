"""The terms of one shard, and the statistics of the whole corpus that BM25 needs.

Each shard is counted by itself, and the counts are added as integers. So every shard is scored with the same number
of documents, document frequencies and average length, however the corpus was cut into shards.

Shape letters: N documents of a shard, V terms of its vocabulary, P pairs of a term and a document that has it,
T terms of all documents, repeats included.
"""

import itertools
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.activity import advanced
from r2med_ray.indexing.analysis import ANALYZER
from r2med_ray.indexing.analyzers import ANALYZERS, Analyzer
from r2med_ray.storage.arrow import numbers, whole

TOLD_EVERY = 1000
"""Documents after which whoever counts is told."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardTerms:
    """Which documents of a shard have a term, and how often. BM25 needs no more of the shard's text.

    The terms depend on no setting of BM25. So they are stored once, and every variant is built from them.
    """

    analyzer: str
    num_documents: int
    terms: tuple[str, ...]
    """V terms, ascending by code point."""

    offsets: npt.NDArray[np.int64]
    """int64, shape (V + 1,). The pairs of term i are at `offsets[i]:offsets[i + 1]`."""

    rows: npt.NDArray[np.int32]
    """int32, shape (P,): the document of each pair, as its position in the shard. Positions ascend within a term."""

    counts: npt.NDArray[np.int32]
    """int32, shape (P,): how often the term occurs in the document."""

    @classmethod
    def from_texts(cls, texts: Iterable[str], analyzer: str = ANALYZER) -> "ShardTerms":
        """Analyse the documents of a shard. A document without a term still counts as a document."""
        numbers = _TermNumbers(ANALYZERS[analyzer])
        pieces = ANALYZERS[analyzer].pieces
        numbers_T, lengths = array("i"), array("q")
        for text in texts:
            before = len(numbers_T)
            numbers_T.extend(itertools.chain.from_iterable(map(numbers.__getitem__, pieces(text))))
            lengths.append(len(numbers_T) - before)
            if len(lengths) % TOLD_EVERY == 0:
                advanced(TOLD_EVERY)
        terms = sorted(numbers.of_term)
        positions_V = np.empty(len(terms), np.int64)
        positions_V[[numbers.of_term[term] for term in terms]] = np.arange(len(terms))
        rows_T = np.repeat(np.arange(len(lengths)), np.frombuffer(lengths, np.int64))
        pairs_T = positions_V[np.frombuffer(numbers_T, np.int32)] * len(lengths) + rows_T
        pairs_P, counts_P = np.unique(pairs_T, return_counts=True)
        positions_P, rows_P = np.divmod(pairs_P, len(lengths))
        return cls(
            analyzer=analyzer,
            num_documents=len(lengths),
            terms=tuple(terms),
            offsets=np.searchsorted(positions_P, np.arange(len(terms) + 1)),
            rows=rows_P.astype(np.int32),
            counts=counts_P.astype(np.int32),
        )

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """int64, shape (N,): how many terms each document has, repeats included."""
        return np.bincount(self.rows, weights=self.counts, minlength=self.num_documents).astype(np.int64)

    def to_table(self) -> pa.Table:
        """Return a table with one row per term."""
        columns = {
            name: pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(values_P))
            for name, values_P in (("rows", self.rows), ("counts", self.counts))
        }
        table = pa.table({"term": pa.array(self.terms, pa.string()), **columns})
        return table.replace_schema_metadata({"num_documents": str(self.num_documents)})

    @classmethod
    def from_table(cls, table: pa.Table, analyzer: str = ANALYZER) -> "ShardTerms":
        """Return the terms that `to_table` was called on. The analyzer is known from the artefact's key."""
        rows, counts = (whole(table[name]) for name in ("rows", "counts"))
        return cls(
            analyzer=analyzer,
            num_documents=int(table.schema.metadata[b"num_documents"]),
            terms=tuple(table["term"].to_pylist()),
            offsets=numbers(rows.offsets),
            rows=numbers(rows.values),
            counts=numbers(counts.values),
        )


def num_empty(table: pa.Table) -> int:
    """Return how many documents have no term. Lucene leaves them out of a field's number of documents.

    Args:
        table: the table of a shard's terms, or its column `rows` alone.
    """
    rows_P = numbers(whole(table["rows"]).values)
    return int(table.schema.metadata[b"num_documents"]) - len(np.unique(rows_P))


class _TermNumbers(dict[str, tuple[int, ...]]):
    """Piece of text → the numbers of its terms. Terms are numbered in the order of their first appearance."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.of_term: dict[str, int] = {}
        self._analyzer = analyzer

    def __missing__(self, piece: str) -> tuple[int, ...]:
        terms = self._analyzer.terms_of_piece(piece)
        self[piece] = tuple(self.of_term.setdefault(term, len(self.of_term)) for term in terms)
        return self[piece]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStatistics:
    """Number of documents, number of terms and document frequencies of a whole corpus."""

    num_documents: int
    num_terms: int
    """Terms of all documents, repeats included."""

    document_frequencies: Mapping[str, int]

    @property
    def average_length(self) -> float:
        """Terms per document; 0 if there is no document."""
        return self.num_terms / self.num_documents if self.num_documents else 0.0

    @classmethod
    def of_shard(cls, shard: ShardTerms) -> "CorpusStatistics":
        """Return the statistics of one shard, as if it were the corpus."""
        return cls(
            num_documents=shard.num_documents,
            num_terms=int(shard.counts.sum(dtype=np.int64)),
            document_frequencies=dict(zip(shard.terms, np.diff(shard.offsets).tolist(), strict=True)),
        )

    @classmethod
    def merge(cls, parts: Iterable["CorpusStatistics"]) -> "CorpusStatistics":
        """Add up the statistics of disjoint shards."""
        num_documents = num_terms = 0
        document_frequencies: Counter[str] = Counter()
        for part in parts:
            num_documents += part.num_documents
            num_terms += part.num_terms
            document_frequencies.update(part.document_frequencies)
        return cls(num_documents=num_documents, num_terms=num_terms, document_frequencies=dict(document_frequencies))

    def to_table(self) -> pa.Table:
        """Return a table with one row per term, ascending."""
        terms = sorted(self.document_frequencies)
        frequencies = [self.document_frequencies[term] for term in terms]
        table = pa.table({"term": pa.array(terms, pa.string()), "documents": pa.array(frequencies, pa.int64())})
        return table.replace_schema_metadata(
            {"num_documents": str(self.num_documents), "num_terms": str(self.num_terms)}
        )

    @classmethod
    def from_table(cls, table: pa.Table) -> "CorpusStatistics":
        """Return the statistics that `to_table` was called on."""
        return cls(
            num_documents=int(table.schema.metadata[b"num_documents"]),
            num_terms=int(table.schema.metadata[b"num_terms"]),
            document_frequencies=dict(zip(table["term"].to_pylist(), table["documents"].to_pylist(), strict=True)),
        )
