"""The BM25 index of one shard, scored with the statistics of the whole corpus.

A score is the sum of query weight × document weight over the terms of the query. The sum is taken in float32, in the
code point order of the terms. Terms that no document of a shard has add nothing to a score in this shard. So a
document's score depends on the corpus statistics and on its own terms, never on the other documents of its shard.

A document that shares no term with the query is no hit. A query without known terms has an empty ranking.

Shape letters: N documents of the shard, V terms of its vocabulary, P pairs of a term and a document, Q queries,
T terms of a query or of several that the shard knows.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.errors import DataError
from r2med_ray.indexing.analyzers import ANALYZERS
from r2med_ray.indexing.bm25 import BM25Row, average_length, idf, weight
from r2med_ray.indexing.lucene_lengths import as_lucene_stores
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.ranking import best_of_scores
from r2med_ray.storage.arrow import numbers, whole
from r2med_ray.types import DocId, FloatMatrix, FloatVector, Ranking

QUERIES_AT_ONCE = 32
"""Queries that are scored together. Each pair of a term and a document is then read once for all of them: 32 queries
take half of the time of one at a time, over 50,000 documents, and a third, over 500,000."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TermWeights:
    """The weights of the terms in the documents of a shard: all of its index that takes time to make."""

    num_documents: int
    terms: tuple[str, ...]
    """V terms, ascending by code point."""

    idf: npt.NDArray[np.float64]
    """float64, shape (V,)."""

    offsets: npt.NDArray[np.int64]
    """int64, shape (V + 1,). The pairs of term i are at `offsets[i]:offsets[i + 1]`."""

    rows: npt.NDArray[np.int32]
    """int32, shape (P,): the document of each pair, as its position in the shard."""

    weights: FloatVector
    """float32, shape (P,): the weight of the term in the document."""

    @classmethod
    def of_terms(
        cls, terms: ShardTerms, statistics: CorpusStatistics, row: BM25Row, *, is_counted: bool = True
    ) -> "TermWeights":
        """Weight the terms of a shard.

        Args:
            terms: the analysed documents of the shard.
            statistics: counts of the whole corpus; for `counts="lucene"` without empty documents.
            row: the variant.
            is_counted: whether the statistics count this shard. A term of another shard that the counted corpus
                lacks has the idf of a term in none of its documents.

        Raises:
            DataError: the statistics were not made from this shard, or the terms were made with an analyzer that is
                not the variant's.
        """
        if terms.analyzer != row.analyzer:
            raise DataError(f"{row.name} needs terms of {row.analyzer}, these were made by {terms.analyzer}")
        idf_V = idf(row, _in_corpus(terms, statistics, is_counted=is_counted), statistics)
        lengths_N = as_lucene_stores(terms.lengths) if row.counts == "lucene" else terms.lengths
        idf_P, counts_P = np.repeat(idf_V, np.diff(terms.offsets)), terms.counts.astype(np.float64)
        weights_P = weight(row, idf_P, counts_P, lengths_N[terms.rows], average_length(statistics))
        return cls(
            num_documents=terms.num_documents,
            terms=terms.terms,
            idf=idf_V,
            offsets=terms.offsets,
            rows=terms.rows,
            weights=weights_P.astype(np.float32),
        )

    def to_buffer(self) -> pa.Buffer:
        """Return Arrow's file format, uncompressed: reading it copies no number."""
        columns = {
            name: pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(values_P))
            for name, values_P in (("rows", self.rows), ("weights", self.weights))
        }
        table = pa.table({"term": pa.array(self.terms, pa.string()), "idf": pa.array(self.idf), **columns})
        table = table.replace_schema_metadata({"num_documents": str(self.num_documents)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=max(1, table.num_rows))
        return sink.getvalue()

    @classmethod
    def from_buffer(cls, content: pa.Buffer) -> "TermWeights":
        """Return the weights that `to_buffer` was called on."""
        table = pa.ipc.open_file(content).read_all()
        rows, weights = (whole(table[name]) for name in ("rows", "weights"))
        return cls(
            num_documents=int(table.schema.metadata[b"num_documents"]),
            terms=tuple(table["term"].to_pylist()),
            idf=numbers(table["idf"]),
            offsets=numbers(rows.offsets),
            rows=numbers(rows.values),
            weights=numbers(weights.values),
        )


class BM25Index:
    """The index of one shard, ready to be searched with the texts of queries.

    Args:
        weights: what `TermWeights.of_terms` makes of the shard with the same statistics and variant.
        doc_ids: N ids. If an id comes twice, its last document is the one that is ranked, as in R2MED's results.
        statistics: counts of the whole corpus; for `counts="lucene"` without empty documents.
        row: the variant.
        hidden: positions of documents that count in the statistics but are never hits. R2MED indexed every row of a
            corpus, but an id has one place in a ranking, and the id's other row may be in another shard.
        keep_zero_scores: also rank documents that share no term with the query, as R2MED's script does.

    Raises:
        DataError: there are not as many ids as documents.
    """

    def __init__(
        self,
        weights: TermWeights,
        doc_ids: Sequence[DocId],
        statistics: CorpusStatistics,
        row: BM25Row,
        *,
        hidden: Collection[int] = (),
        keep_zero_scores: bool = False,
    ) -> None:
        from scipy.sparse import csc_array

        if len(doc_ids) != weights.num_documents:
            raise DataError(f"{len(doc_ids)} ids for a shard of {weights.num_documents} analysed documents")
        self._doc_ids = tuple(doc_ids)
        self._row = row
        self._analyze = ANALYZERS[row.analyzer].analyze
        self._corpus_terms = statistics.document_frequencies
        self._average_length = average_length(statistics)
        self._position_of_term = {term: position for position, term in enumerate(weights.terms)}
        self._idf_V = weights.idf
        self._weights_NV = csc_array(
            (weights.weights, weights.rows, weights.offsets), shape=(weights.num_documents, len(weights.terms))
        )
        self._hidden_rows = [*hidden, *_repeated(doc_ids)]
        self._keep_zero_scores = keep_zero_scores

    @classmethod
    def build(
        cls,
        terms: ShardTerms,
        doc_ids: Sequence[DocId],
        statistics: CorpusStatistics,
        row: BM25Row,
        *,
        hidden: Collection[int] = (),
        keep_zero_scores: bool = False,
        is_counted: bool = True,
    ) -> "BM25Index":
        """Weight the terms of a shard, and return its index. See the class and `TermWeights.of_terms`."""
        weights = TermWeights.of_terms(terms, statistics, row, is_counted=is_counted)
        return cls(weights, doc_ids, statistics, row, hidden=hidden, keep_zero_scores=keep_zero_scores)

    def search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return up to k hits for each query, in the order of `ranking.best`."""
        batches = [queries[start : start + QUERIES_AT_ONCE] for start in range(0, len(queries), QUERIES_AT_ONCE)]
        return [
            best_of_scores(scores_N, self._doc_ids, k)
            for batch in batches
            for scores_N in self._scores_of_each(batch)
        ]

    def parts(self, query: str, doc_ids: Sequence[DocId]) -> list[dict[str, float]]:
        """Return for each of some documents what each term that it shares with the query adds to its score.

        Terms are in descending order of what they add.

        Raises:
            KeyError: the index has no such document.
        """
        position_of = {doc_id: position for position, doc_id in enumerate(self._doc_ids)}
        known, positions_T, weights_T = self._weighted(query)
        added = self._weights_NV[:, positions_T].tocsr()[[position_of[doc_id] for doc_id in doc_ids]] * weights_T
        return [
            {known[term]: float(part) for term, part in sorted(enumerate(row), key=lambda each: -each[1]) if part}
            for row in added.toarray()
        ]

    def _scores_of_each(self, queries: Sequence[str]) -> FloatMatrix:
        """Return float32 scores of shape (Q, N). The score of a document that is no hit is -inf.

        The terms of all queries are gathered once. A term that a query lacks adds 0 to its scores, which changes no
        bit of them.
        """
        weighted = [self._weighted(query) for query in queries]
        positions_T = np.unique(np.concatenate([positions for _, positions, _ in weighted]))
        weights_TQ = np.zeros((len(positions_T), len(queries)), np.float32)
        for query, (_, positions, weights) in enumerate(weighted):
            weights_TQ[np.searchsorted(positions_T, positions), query] = weights
        scores_QN: FloatMatrix = np.ascontiguousarray((self._weights_NV[:, positions_T] @ weights_TQ).T)
        if not self._keep_zero_scores:
            scores_QN[scores_QN == 0] = -np.inf
        scores_QN[:, self._hidden_rows] = -np.inf
        return scores_QN

    def _weighted(self, query: str) -> tuple[list[str], npt.NDArray[np.intp], FloatVector]:
        """Return the terms of a query that the shard knows, their positions and their float32 weights, each (T,)."""
        counts = Counter(self._analyze(query))
        known = sorted(counts.keys() & self._position_of_term.keys())
        positions_T = np.array([self._position_of_term[term] for term in known], np.intp)
        weights_T = np.array([counts[term] for term in known], np.float64)
        if self._row.weighted_queries:
            length = sum(count for term, count in counts.items() if term in self._corpus_terms)
            weights_T = weight(self._row, self._idf_V[positions_T], weights_T, length, self._average_length)
        return known, positions_T, weights_T.astype(np.float32)


def _in_corpus(terms: ShardTerms, statistics: CorpusStatistics, *, is_counted: bool) -> npt.NDArray[np.int64]:
    """Return how many documents of the corpus have each term: int64, shape (V,)."""
    in_shard_V = np.diff(terms.offsets)
    in_corpus_V = np.array([statistics.document_frequencies.get(term, 0) for term in terms.terms], np.int64)
    unknown = np.flatnonzero(in_corpus_V < in_shard_V)
    if is_counted and len(unknown):
        first = unknown[0]
        raise DataError(
            f"term {terms.terms[first]!r} is in {in_shard_V[first]} documents of the shard and in "
            f"{in_corpus_V[first]} of the corpus; the statistics were made from other documents"
        )
    return in_corpus_V


def _repeated(doc_ids: Sequence[DocId]) -> list[int]:
    """Return the positions of documents whose id comes again later."""
    last = {doc_id: position for position, doc_id in enumerate(doc_ids)}
    return [position for position, doc_id in enumerate(doc_ids) if last[doc_id] != position]
