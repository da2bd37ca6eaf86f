"""BM25 over one shard, scored with the statistics of the whole corpus.

The weight of a term t that occurs tf times in a bag of words of L terms is

    idf(t) · tf / (tf + k1 · (1 − b + b · L / average length)),   idf(t) = ln(1 + (N − df + 0.5) / (df + 0.5))

The formula is Lucene's BM25 with exact lengths (Kamphuis et al., ECIR 2020: "Lucene (accurate)"). The rows of
`BM25_ROWS` differ in the weights of the query's terms, in the idf, in the analyzer, and in what is counted: Lucene
itself stores lengths in one byte, and doesn't count documents without terms in N and in the average length.

A score is the sum of query weight × document weight over the terms of the query. The sum is taken in float32, in the
code point order of the terms. Terms that no document of a shard has add nothing to a score in this shard. So a
document's score depends on the corpus statistics and on its own terms, never on the other documents of its shard.

A document that shares no term with the query is no hit. A query without known terms has an empty ranking.

Shape letters: N documents of the shard, V terms of its vocabulary, P pairs of a term and a document,
T terms of a query that the shard knows.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.errors import DataError
from r2med_ray.indexing import plain_words, porter_stop
from r2med_ray.indexing.analysis import ANALYZER
from r2med_ray.indexing.analyzers import ANALYZERS
from r2med_ray.indexing.lucene_lengths import as_lucene_stores
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.ranking import best_of_scores
from r2med_ray.settings.registry import Registry
from r2med_ray.storage.keys import Json
from r2med_ray.types import DocId, FloatVector, Ranking

Weights: TypeAlias = npt.NDArray[np.float64]


class _Idf(NamedTuple):
    formula: str
    of_odds: Callable[[Weights], Weights]
    """Returns the idf for the odds (N − df + 0.5) / (df + 0.5)."""


_IDF: Mapping[str, _Idf] = {
    "lucene": _Idf("ln(1+(N-df+0.5)/(df+0.5))", lambda odds: np.log(1 + odds)),
    "robertson": _Idf("max(0,ln((N-df+0.5)/(df+0.5)))", lambda odds: np.log(np.maximum(odds, 1))),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BM25Row:
    """A named variant and its parameters. The defaults k1 = 0.9 and b = 0.4 are Anserini's, which R2MED used."""

    name: str
    weighted_queries: bool
    """Whether a query term is weighted like a term of a document. If not, its weight is its count in the query."""

    k1: float = 0.9
    b: float = 0.4
    idf: Literal["lucene", "robertson"] = "lucene"
    analyzer: str = ANALYZER
    counts: Literal["exact", "lucene"] = "exact"
    """`lucene` takes lengths as Lucene stores them, and N and the average length over documents with terms only."""

    def with_parameters(self, *, k1: float | None = None, b: float | None = None) -> "BM25Row":
        """Return the row with other parameters; None keeps the row's own."""
        return replace(self, k1=self.k1 if k1 is None else k1, b=self.b if b is None else b)

    def inputs(self) -> dict[str, Json]:
        """Return everything about the variant that changes a score."""
        return {
            "analyzer": self.analyzer,
            "idf": self.idf,
            "weighted_queries": self.weighted_queries,
            "k1": self.k1,
            "b": self.b,
            **({"counts": self.counts} if self.counts != "exact" else {}),
        }

    def describe(self) -> str:
        """Return the variant in words, for a report."""
        query = "query terms weighted like a document's" if self.weighted_queries else "query terms counted"
        idf = _IDF[self.idf].formula
        lucene = ", lengths in Lucene's one byte, N without empty documents" if self.counts == "lucene" else ""
        return f"BM25, k1={self.k1:g}, b={self.b:g}, idf={idf}, {query}, analyzer {self.analyzer}{lucene}"


# The variant of NanoR2MED's lists: bm25s's method "robertson" (HAKARI-Bench calls it okapi) with bm25s's k1 and b.
_NANO = BM25Row(
    name="bm25-nano", weighted_queries=False, k1=1.5, b=0.75, idf="robertson", analyzer=porter_stop.ANALYZER
)

BM25_ROWS: Registry[BM25Row] = Registry(
    "BM25 variant",
    [
        (row.name, row)
        for row in (
            BM25Row(name="bm25", weighted_queries=False),
            BM25Row(name="bm25-lucene", weighted_queries=False, counts="lucene"),
            # eval_BM25.py:75 of R2MED (commit 62b7074) sends the query through gensim's LuceneBM25Model too. The
            # model's idf, ln(N + 1) − ln(df + 0.5), is the one above.
            BM25Row(name="bm25-r2med", weighted_queries=True),
            _NANO,
            # The same variant over plain words. NanoR2MED's lists before 2026-05-25 are near the lists of this
            # variant; today's are far from them.
            replace(_NANO, name="bm25-nano-plain", analyzer=plain_words.ANALYZER),
        )
    ],
)


class BM25Index:
    """The index of one shard, ready to be searched with the texts of queries.

    Args:
        terms: the analysed documents of the shard.
        doc_ids: N ids. If an id comes twice, its last document is the one that is ranked, as in R2MED's results.
        statistics: counts of the whole corpus; for `counts="lucene"` without empty documents.
        row: the variant.
        hidden: positions of documents that count in the statistics but are never hits. R2MED indexed every row of a
            corpus, but an id has one place in a ranking, and the id's other row may be in another shard.
        keep_zero_scores: also rank documents that share no term with the query, as R2MED's script does.
        is_counted: whether the statistics count this shard. A term of another shard that the counted corpus lacks has
            the idf of a term in none of its documents.

    Raises:
        DataError: there are not as many ids as documents, the statistics were not made from this shard, or the terms
            were made with an analyzer that is not the variant's.
    """

    def __init__(
        self,
        terms: ShardTerms,
        doc_ids: Sequence[DocId],
        statistics: CorpusStatistics,
        row: BM25Row,
        *,
        hidden: Collection[int] = (),
        keep_zero_scores: bool = False,
        is_counted: bool = True,
    ) -> None:
        from scipy.sparse import csc_array

        if len(doc_ids) != terms.num_documents:
            raise DataError(f"{len(doc_ids)} ids for a shard of {terms.num_documents} analysed documents")
        if terms.analyzer != row.analyzer:
            raise DataError(f"{row.name} needs terms of {row.analyzer}, these were made by {terms.analyzer}")
        self._doc_ids = tuple(doc_ids)
        self._row = row
        self._analyze = ANALYZERS[row.analyzer].analyze
        self._corpus_terms = statistics.document_frequencies
        self._average_length = _average_length(statistics)
        self._position_of_term = {term: position for position, term in enumerate(terms.terms)}
        self._idf_V = _idf(row, _in_corpus(terms, statistics, is_counted=is_counted), statistics)
        sizes_V = np.diff(terms.offsets)
        lengths_N = as_lucene_stores(terms.lengths) if row.counts == "lucene" else terms.lengths
        lengths_P = lengths_N[terms.rows]
        counts_P = terms.counts.astype(np.float64)
        weights_P = _weight(row, np.repeat(self._idf_V, sizes_V), counts_P, lengths_P, self._average_length)
        self._weights_NV = csc_array(
            (weights_P.astype(np.float32), terms.rows, terms.offsets),
            shape=(terms.num_documents, len(terms.terms)),
        )
        self._hidden_rows = [*hidden, *_repeated(doc_ids)]
        self._keep_zero_scores = keep_zero_scores

    def search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return up to k hits for each query, in the order of `ranking.best`."""
        return [best_of_scores(self._scores(query), self._doc_ids, k) for query in queries]

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

    def _scores(self, query: str) -> FloatVector:
        """Return float32 scores of shape (N,). The score of a document that is no hit is -inf."""
        _, positions_T, weights_T = self._weighted(query)
        scores_N: FloatVector = self._weights_NV[:, positions_T] @ weights_T
        if not self._keep_zero_scores:
            scores_N[scores_N == 0] = -np.inf
        scores_N[self._hidden_rows] = -np.inf
        return scores_N

    def _weighted(self, query: str) -> tuple[list[str], npt.NDArray[np.intp], FloatVector]:
        """Return the terms of a query that the shard knows, their positions and their float32 weights, each (T,)."""
        counts = Counter(self._analyze(query))
        known = sorted(counts.keys() & self._position_of_term.keys())
        positions_T = np.array([self._position_of_term[term] for term in known], np.intp)
        weights_T = np.array([counts[term] for term in known], np.float64)
        if self._row.weighted_queries:
            length = sum(count for term, count in counts.items() if term in self._corpus_terms)
            weights_T = _weight(self._row, self._idf_V[positions_T], weights_T, length, self._average_length)
        return known, positions_T, weights_T.astype(np.float32)


def query_weights(query: str, row: BM25Row, statistics: CorpusStatistics) -> dict[str, tuple[int, float | None]]:
    """Return the terms of a query in the order of their first place: their count, and their weight in the query.

    Args:
        query: what BM25 is asked.
        row: the variant.
        statistics: counts of the whole corpus.

    Returns:
        Term → count and weight. The weight is None for a term that no document has; it adds nothing to a score.
    """
    counts = Counter(ANALYZERS[row.analyzer].analyze(query))
    known = [term for term in counts if term in statistics.document_frequencies]
    weights_T = np.array([counts[term] for term in known], np.float64)
    if row.weighted_queries:
        in_corpus_T = np.array([statistics.document_frequencies[term] for term in known], np.int64)
        length = sum(counts[term] for term in known)
        idf_T = _idf(row, in_corpus_T, statistics)
        weights_T = _weight(row, idf_T, weights_T, length, _average_length(statistics))
    weight_of = dict(zip(known, weights_T.tolist(), strict=True))
    return {term: (count, weight_of.get(term)) for term, count in counts.items()}


def _weight(
    row: BM25Row, idf: Weights, counts: Weights, lengths: npt.NDArray[np.int64] | int, average_length: float
) -> Weights:
    """Return the weights of terms in bags of words.

    Args:
        row: the variant.
        idf: the idf of each term.
        counts: the count of each term in its bag.
        lengths: the length of each term's bag, or one length for all.
        average_length: of the documents of the corpus.
    """
    return idf * counts / (counts + row.k1 * (1 - row.b + row.b * lengths / average_length))


def _average_length(statistics: CorpusStatistics) -> float:
    return statistics.average_length or 1.0  # a corpus without terms has nothing to weigh


def _idf(row: BM25Row, in_corpus_V: npt.NDArray[np.int64], statistics: CorpusStatistics) -> Weights:
    """Return the idf of terms that so many documents of the corpus have: float64, shape (V,)."""
    odds_V: Weights = (statistics.num_documents - in_corpus_V + 0.5) / (in_corpus_V + 0.5)
    return _IDF[row.idf].of_odds(odds_V)


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
