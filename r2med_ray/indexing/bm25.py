"""BM25: its named variants, and the weight of a term in a document or a query.

The weight of a term t that occurs tf times in a bag of words of L terms is

    idf(t) · tf / (tf + k1 · (1 − b + b · L / average length)),   idf(t) = ln(1 + (N − df + 0.5) / (df + 0.5))

The formula is Lucene's BM25 with exact lengths (Kamphuis et al., ECIR 2020: "Lucene (accurate)"). The rows of
`BM25_ROWS` differ in the weights of the query's terms, in the idf, in the analyzer, and in what is counted: Lucene
itself stores lengths in one byte, and doesn't count documents without terms in N and in the average length.

Shape letters: V terms of a vocabulary, T terms of a query.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.indexing import plain_words, porter_stop
from r2med_ray.indexing.analysis import ANALYZER
from r2med_ray.indexing.analyzers import ANALYZERS
from r2med_ray.indexing.statistics import CorpusStatistics
from r2med_ray.settings.registry import Registry
from r2med_ray.storage.keys import Json

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
        idf_T = idf(row, in_corpus_T, statistics)
        weights_T = weight(row, idf_T, weights_T, length, average_length(statistics))
    weight_of = dict(zip(known, weights_T.tolist(), strict=True))
    return {term: (count, weight_of.get(term)) for term, count in counts.items()}


def weight(
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


def average_length(statistics: CorpusStatistics) -> float:
    return statistics.average_length or 1.0  # a corpus without terms has nothing to weigh


def idf(row: BM25Row, in_corpus_V: npt.NDArray[np.int64], statistics: CorpusStatistics) -> Weights:
    """Return the idf of terms that so many documents of the corpus have: float64, shape (V,)."""
    odds_V: Weights = (statistics.num_documents - in_corpus_V + 0.5) / (in_corpus_V + 0.5)
    return _IDF[row.idf].of_odds(odds_V)
