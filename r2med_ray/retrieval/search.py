"""Searches shards in this process: what the distributed search has to equal."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.protocols import Index
from r2med_ray.ranking import merge, require_finite
from r2med_ray.types import Query, Ranking, Run

P = TypeVar("P")


class PlainRetriever(Generic[P]):
    """A retriever over shards that this process holds.

    Args:
        tag: tag of its runs.
        prepare: turns queries into what the indexes are asked.
        shards: the indexes of disjoint parts of one corpus.
        drop_identical_ids: leave out a document whose id is the query's; the ranking still has k documents.

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
    ) -> None:
        if not shards:
            raise ConfigError(f"retriever {tag!r} has no shard to search")
        self.tag = tag
        self._prepare = prepare
        self._shards = shards
        self._drop_identical_ids = drop_identical_ids

    def retrieve(self, queries: Sequence[Query], *, k: int) -> Run:
        """Return the k best documents of all shards for every query."""
        prepared = self._prepare(queries)
        depth = shard_depth(k, drop_identical_ids=self._drop_identical_ids)
        answers = [shard.search(prepared, depth) for shard in self._shards]
        return merge_shards(self.tag, queries, answers, k, drop_identical_ids=self._drop_identical_ids)


def shard_depth(k: int, *, drop_identical_ids: bool) -> int:
    """Return how many hits a shard is asked for, so that k are left once a query's own document is dropped."""
    return k + 1 if drop_identical_ids else k


def merge_shards(
    tag: str,
    queries: Sequence[Query],
    answers: Sequence[Sequence[Ranking]],
    k: int,
    *,
    drop_identical_ids: bool = False,
) -> Run:
    """Merge what every shard found into the run of one index over the whole corpus.

    Args:
        tag: tag of the run.
        queries: Q queries.
        answers: per shard, a ranking of `shard_depth` hits for each of the Q queries, in their order.
        k: length of the rankings.
        drop_identical_ids: leave out a document whose id is the query's, before the cut.

    Raises:
        DataError: a shard left out a query, or a score is not finite.
    """
    for index, rankings in enumerate(answers):
        if len(rankings) != len(queries):
            raise DataError(f"shard {index} of {len(answers)} answered {len(rankings)} of {len(queries)} queries")
    return Run(
        tag=tag,
        rankings={
            query.query_id: _merge_one(query, [rankings[row] for rankings in answers], k, drop_identical_ids)
            for row, query in enumerate(queries)
        },
    )


def _merge_one(query: Query, rankings: Sequence[Ranking], k: int, drop_identical_ids: bool) -> Ranking:
    for ranking in rankings:
        require_finite(ranking, stage="search", query_id=query.query_id)
    if not drop_identical_ids:
        return merge(rankings, k)
    return merge((tuple(hit for hit in ranking if hit.doc_id != query.query_id) for ranking in rankings), k)
