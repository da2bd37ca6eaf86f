"""The rankings that a measure is given: at which ranks each kind of document is.

A ranked document is of one of four kinds. trec_eval distinguishes the same kinds:

    positive       its grade is above 0
    nonrelevant    its grade is 0: it was judged and is not relevant
    pooled         its grade is below 0: it was in the pool of documents to judge, but nobody judged it
    unjudged       the qrels don't have it for this query

Shape letters: Q queries, H documents of all queries, J judgements, N ranked documents of all queries.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from r2med_ray.evaluation.ranked import pairs, positions
from r2med_ray.storage.arrow import BoolVector, DoubleVector, IntVector


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranks:
    """Some documents of Q queries, sorted by query and then by rank.

    Args:
        num_queries: Q.
        query: int64, shape (H,); the query of each document, 0 to Q - 1.
        rank: int64, shape (H,); 1 is the top of the ranking.
    """

    num_queries: int
    query: IntVector
    rank: IntVector

    def sums(self, weight_H: DoubleVector | BoolVector) -> DoubleVector:
        """Return float64 of shape (Q,): the weights of each query's documents, added up in rank order."""
        return np.asarray(np.bincount(self.query, weights=weight_H, minlength=self.num_queries), np.float64)

    def within(self, cutoff: float) -> DoubleVector:
        """Return float64 of shape (Q,): how many of each query's documents have a rank up to `cutoff`."""
        return self.sums(self.rank <= cutoff)

    def above(self, others: "Ranks") -> IntVector:
        """Return int64, one number per document of `others`: how many documents here have a better rank than it.

        Only documents of the same query are counted.
        """
        place = np.searchsorted(pairs(self.query, self.rank), pairs(others.query, others.rank))
        start_Q = np.cumsum(self.counts) - self.counts
        return place - start_Q[others.query]

    @cached_property
    def counts(self) -> IntVector:
        """int64, shape (Q,): how many documents each query has here."""
        return np.bincount(self.query, minlength=self.num_queries)

    @cached_property
    def nth(self) -> IntVector:
        """int64, shape (H,): 1 for the first document of a query here, 2 for the second, and so on."""
        return positions(self.query, self.counts)


@dataclass(frozen=True, kw_only=True, eq=False)
class GradedRanks(Ranks):
    """Some documents of Q queries, sorted by query and then by rank, with their grades.

    Args:
        grade: int64, shape (H,); the grade of each document.
    """

    grade: IntVector

    def only(self, wanted_H: BoolVector) -> "GradedRanks":
        """Return the documents for which `wanted_H` is true, in the same order."""
        return GradedRanks(
            num_queries=self.num_queries,
            query=self.query[wanted_H],
            rank=self.rank[wanted_H],
            grade=self.grade[wanted_H],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Rankings:
    """How a run ranks the documents of Q queries, each of which has a positive judgement.

    Args:
        found: the judged documents that the run ranks, or only the positives under `positives_only`.
        ideal: all positives of the qrels at the ranks 1, 2, ... of an ideal ranking, at least one per query.
        num_ranked: int64, shape (Q,); how many documents the run ranks for each query, 0 if it doesn't answer it.
        judged_query: int64, shape (J,); the query of each judgement, or of each positive one under `positives_only`.
        judged_grade: int64, shape (J,); the grade of each judgement.
        positives_only: whether documents that are not positive were left out, to save time.
    """

    found: GradedRanks
    ideal: GradedRanks
    num_ranked: IntVector
    judged_query: IntVector
    judged_grade: IntVector
    positives_only: bool

    @property
    def num_queries(self) -> int:
        """The number of queries, Q."""
        return self.found.num_queries

    @cached_property
    def positives(self) -> GradedRanks:
        """The positives that the run ranks."""
        return self.found if self.positives_only else self.found.only(self.found.grade > 0)

    @cached_property
    def nonrelevant(self) -> GradedRanks:
        """The documents with grade 0 that the run ranks."""
        self._require_all()
        return self.found.only(self.found.grade == 0)

    @cached_property
    def pooled(self) -> GradedRanks:
        """The documents with a grade below 0 that the run ranks."""
        self._require_all()
        return self.found.only(self.found.grade < 0)

    @cached_property
    def unjudged(self) -> Ranks:
        """The documents that the run ranks and the qrels don't have for the query."""
        self._require_all()
        query_N = np.repeat(np.arange(self.num_queries), self.num_ranked)
        start_Q = np.cumsum(self.num_ranked) - self.num_ranked
        unjudged_N = np.ones(len(query_N), np.bool_)
        unjudged_N[start_Q[self.found.query] + self.found.rank - 1] = False
        rank_N = positions(query_N, self.num_ranked)
        return Ranks(num_queries=self.num_queries, query=query_N[unjudged_N], rank=rank_N[unjudged_N])

    @cached_property
    def num_nonrelevant(self) -> IntVector:
        """int64, shape (Q,): how many documents the qrels give grade 0, ranked or not."""
        self._require_all()
        return np.bincount(self.judged_query[self.judged_grade == 0], minlength=self.num_queries)

    @cached_property
    def num_pooled(self) -> IntVector:
        """int64, shape (Q,): how many documents the qrels give a grade below 0, ranked or not."""
        self._require_all()
        return np.bincount(self.judged_query[self.judged_grade < 0], minlength=self.num_queries)

    def _require_all(self) -> None:
        """Check that all kinds of documents were looked up, not the positives alone.

        Raises:
            ValueError: the row of the measure says `positives_only`.
        """
        if self.positives_only:
            raise ValueError("a measure that looks at more than positives must not be declared `positives_only`")
