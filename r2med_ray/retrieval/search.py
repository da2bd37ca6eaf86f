"""Searches shards in this process. The distributed search has to give the same runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.first_stage import Ties
from r2med_ray.protocols import Index, Rankings, ScoresCandidates, SkippingIndex
from r2med_ray.ranking import merge, require_finite
from r2med_ray.ranking_arrays import RankedQueries, RankingArrays
from r2med_ray.retrieval.file_order import id_of, in_run_order
from r2med_ray.types import DocId, FloatVector, Query, QueryId, Ranking, Run, Task

P = TypeVar("P")

Among: TypeAlias = Mapping[QueryId, Sequence[DocId]]
"""query_id → the only documents that are ranked."""

Answers: TypeAlias = Sequence[Rankings]
"""Per shard, a ranking for each query."""


class ReadWhenSearched(Generic[P]):
    """The index of a shard that is read for each search and let go after it.

    Args:
        read: builds or loads the index.
    """

    def __init__(self, read: Callable[[], Index[P]]) -> None:
        self._read = read

    def search(self, queries: P, k: int) -> Rankings:
        """Return up to k hits for each query, in the order of `ranking.best`."""
        return self._read().search(queries, k)

    def search_above(self, queries: P, k: int, least_Q: FloatVector) -> Rankings:
        """Return what `search` returns, but documents with lower scores than a query's `least_Q` may be missing."""
        return _search_above(self._read(), queries, k, least_Q)

    def score(self, queries: P, candidates: Sequence[Sequence[DocId]]) -> list[Ranking]:
        """Return those candidates of each query that the shard has; see `score_candidates`."""
        return score_candidates(self._read(), queries, candidates)


def search_shards(shards: Iterable[Index[P]], queries: P, k: int) -> RankingArrays:
    """Return the best k hits of some shards for each query. Each shard's hits are merged before the next is searched.

    Raises:
        DataError: a shard left out a query.
    """
    best: RankingArrays | None = None
    for index in shards:
        if best is None:
            best = _arrays(index.search(queries, k))
            continue
        found = _arrays(_search_above(index, queries, k, best.kth_scores(k)))
        if len(found) != len(best):
            raise DataError(f"a shard answered {len(found)} queries, another one {len(best)}")
        best = best.above(found).best(k)
    return best or RankingArrays.of([])


def _arrays(rankings: Rankings) -> RankingArrays:
    return rankings if isinstance(rankings, RankingArrays) else RankingArrays.of(rankings)


def _search_above(index: Index[P], queries: P, k: int, least_Q: FloatVector) -> Rankings:
    return index.search_above(queries, k, least_Q) if isinstance(index, SkippingIndex) else index.search(queries, k)


class PlainRetriever(Generic[P]):
    """A retriever over shards that this process holds.

    Args:
        tag: tag of its runs.
        prepare: turns queries into the form that the indexes take.
        shards: the indexes of disjoint parts of one corpus.
        drop_identical_ids: whether a document whose id is the query's is left out; the ranking still has k documents.
        ties: what decides among equal scores at the cut.
        rescore_multiplier: how many candidates per document of a ranking the shards find, and then score; 0 if they
            find the ranking at once.
        one_at_a_time: whether the shards are `ReadWhenSearched`.

    Raises:
        ConfigError: there is no shard.
    """

    def __init__(
        self,
        tag: str,
        prepare: Callable[[Sequence[Query]], P],
        shards: Sequence[Index[P]],
        *,
        drop_identical_ids: bool = False,
        ties: Ties = "doc id",
        rescore_multiplier: int = 0,
        one_at_a_time: bool = False,
    ) -> None:
        if not shards:
            raise ConfigError(f"retriever {tag!r} has no shard to search")
        self.tag = tag
        self.one_at_a_time = one_at_a_time
        self._prepare = prepare
        self._shards = shards
        self._merging = Merging(tag, drop_identical_ids, ties, rescore_multiplier)

    def retrieve(self, queries: Sequence[Query], *, k: int, among: Among | None = None) -> Run:
        """Return the k best documents of all shards for every query, without those that the query excludes.

        Args:
            queries: the questions.
            k: documents per query.
            among: query_id → the only documents that are ranked; None if all are looked through.
        """
        prepared = self._prepare(queries)
        return self._merging.ranked(
            queries,
            k,
            among,
            search=partial(self._search, prepared),
            score=lambda candidates: [score_candidates(shard, prepared, candidates) for shard in self._shards],
        )

    def _search(self, prepared: P, depth: int) -> Answers:
        if self.one_at_a_time:
            return [search_shards(self._shards, prepared, depth)]
        return [shard.search(prepared, depth) for shard in self._shards]


class Merging(NamedTuple):
    """How the answers of shards become a run, whoever asks the shards."""

    tag: str
    drop_identical_ids: bool
    ties: Ties
    rescore_multiplier: int

    def ranked(
        self,
        queries: Sequence[Query],
        k: int,
        among: Among | None,
        *,
        search: Callable[[int], Answers],
        score: Callable[[list[Sequence[DocId]]], Answers],
    ) -> Run:
        """Return the run of some queries.

        Args:
            queries: Q queries.
            k: length of the rankings.
            among: query_id → the only documents that are ranked.
            search: asks each shard for so many hits of every query.
            score: asks each shard for the scores of the candidates of every query.
        """
        if among is None:
            found = k * max(self.rescore_multiplier, 1)
            depth = shard_depth(found, queries, drop_identical_ids=self.drop_identical_ids)
            run = self._merged(queries, search(depth), found)
            if not self.rescore_multiplier:
                return run
            among = {query_id: [hit.doc_id for hit in ranking] for query_id, ranking in run.rankings.items()}
        return self._merged(queries, score([among[query.query_id] for query in queries]), k)

    def _merged(self, queries: Sequence[Query], answers: Answers, k: int) -> Run:
        return merge_shards(self.tag, queries, answers, k, drop_identical_ids=self.drop_identical_ids, ties=self.ties)


def score_candidates(shard: Index[P], prepared: P, candidates: Sequence[Sequence[DocId]]) -> list[Ranking]:
    """Return those candidates of every query that a shard has, with their scores.

    Raises:
        ConfigError: the index of the shard can't score single documents.
    """
    if not isinstance(shard, ScoresCandidates):
        raise ConfigError(f"an index of kind {type(shard).__name__} searches, and scores no candidates")
    return shard.score(prepared, candidates)


def shard_depth(k: int, queries: Sequence[Query], *, drop_identical_ids: bool) -> int:
    """Return how many hits a shard is asked for, so that k hits are left after a query's exclusions."""
    return k + max((len(query.excluded) for query in queries), default=0) + drop_identical_ids


def merge_shards(
    tag: str,
    queries: Sequence[Query],
    answers: Answers,
    k: int,
    *,
    drop_identical_ids: bool = False,
    ties: Ties = "doc id",
) -> Run:
    """Merge the hits of all shards into the run that one index over the whole corpus would give.

    Args:
        tag: tag of the run.
        queries: Q queries. The documents that a query excludes are left out before the cut.
        answers: per shard, a ranking of `shard_depth` hits for each of the Q queries, in their order.
        k: length of the rankings.
        drop_identical_ids: whether a document whose id is the query's is left out, before the cut.
        ties: what decides among equal scores at the cut. For "file row" the shards' ids are those of `file_order`.

    Raises:
        DataError: a shard left out a query, or a score is not finite.
    """
    for index, rankings in enumerate(answers):
        if len(rankings) != len(queries):
            raise DataError(f"shard {index} of {len(answers)} answered {len(rankings)} of {len(queries)} queries")
    return Run(
        tag=tag,
        rankings=RankedQueries.of(
            (query.query_id, _merge_one(query, [rankings[row] for rankings in answers], k, drop_identical_ids, ties))
            for row, query in enumerate(queries)
        ),
    )


def most_found(task: Task, query: Query, *, drop_identical_ids: bool, left_out: Set[DocId] = frozenset()) -> int:
    """Return how many documents the longest ranking of a query has if nothing cuts it.

    Args:
        task: its corpus is searched.
        query: one of its queries. What it excludes isn't ranked.
        drop_identical_ids: whether a document whose id is the query's is left out.
        left_out: documents that the index lacks.
    """
    own = task.identical_ids & {query.query_id} if drop_identical_ids else frozenset[DocId]()
    return task.corpus.num_documents - len((query.excluded - task.unknown_excluded) | own | left_out)


def _merge_one(query: Query, rankings: Sequence[Ranking], k: int, drop_identical_ids: bool, ties: Ties) -> Ranking:
    for ranking in rankings:
        require_finite(ranking, stage="search", query_id=query.query_id)
    dropped = query.excluded | {query.query_id} if drop_identical_ids else query.excluded
    if dropped:
        rankings = [tuple(hit for hit in ranking if id_of(hit.doc_id, ties) not in dropped) for ranking in rankings]
    merged = merge(rankings, k)
    return in_run_order(merged) if ties == "file row" else merged
