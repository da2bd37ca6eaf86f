"""Ranked lists that exist already, as a first stage: no index, no scores, and their order is kept.

HAKARI-Bench publishes its lists without scores. The benchmark shuffles a reranker's candidates by a hash before they
are scored, so that a reranker that gives one score to all of them doesn't inherit the list's order. This package has
no need to shuffle, because documents with equal scores are always ordered by doc id.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from r2med_ray.errors import DataError
from r2med_ray.ranking_arrays import RankedQueries
from r2med_ray.storage.parquet import read_rows
from r2med_ray.types import DocId, Query, QueryId, Ranking, Run, ScoredDoc

Lists: TypeAlias = Mapping[QueryId, Sequence[DocId]]

NUM_CANDIDATES = 100
"""Candidates of a query in `reranking_hybrid`. If no positive is among them, one may follow at the next rank."""


def in_order(doc_ids: Sequence[DocId]) -> Ranking:
    """Return a ranking in the order of n ids. The first has the score n, the last has 1; all are exact in float32."""
    return tuple(ScoredDoc(doc_id, float(len(doc_ids) - place)) for place, doc_id in enumerate(doc_ids))


def read_lists(path: Path) -> dict[QueryId, tuple[DocId, ...]]:
    """Read a Parquet table with the columns `query-id` and `corpus-ids` (best first). The table may come in parts.

    Raises:
        DataError: a column is missing, an id is null, a query comes twice, or a document comes twice in a list; names
            file and row.
    """
    lists: dict[QueryId, tuple[DocId, ...]] = {}
    places: dict[QueryId, str] = {}
    for row in read_rows(path):
        query_id, doc_ids = row.values.get("query-id"), row.values.get("corpus-ids")
        if query_id is None or not isinstance(doc_ids, list):
            raise DataError(f"{row.where}: expected query-id and a list of corpus-ids, got {', '.join(row.values)}")
        if None in doc_ids:
            raise DataError(f"{row.where}: document {doc_ids.index(None) + 1} of query {str(query_id)!r} is null")
        ranked = tuple(str(doc_id) for doc_id in doc_ids)
        if str(query_id) in lists:
            raise DataError(f"{row.where}: query {str(query_id)!r} has a list already, in {places[str(query_id)]}")
        if len(set(ranked)) < len(ranked):
            repeated = next(doc_id for doc_id in ranked if ranked.count(doc_id) > 1)
            raise DataError(f"{row.where}: query {str(query_id)!r} has document {repeated!r} twice")
        lists[str(query_id)], places[str(query_id)] = ranked, row.where
    return lists


class ListRetriever:
    """Answers with the first documents of each query's list.

    Args:
        tag: tag of its runs.
        lists: one list for every query that will be asked.
        keep: how many documents of a list count; all if left out.
        drop_identical_ids: whether a document whose id is the query's is left out.
    """

    def __init__(self, tag: str, lists: Lists, *, keep: int | None = None, drop_identical_ids: bool = False) -> None:
        self.tag = tag
        self._lists = lists
        self._keep = keep
        self._drop_identical_ids = drop_identical_ids

    def retrieve(self, queries: Sequence[Query], *, k: int) -> Run:
        """Return the first k documents of every query's list, without those that the query excludes.

        Raises:
            DataError: a query has no list.
        """
        for query in queries:
            if query.query_id not in self._lists:
                raise DataError(f"candidates {self.tag!r}: there is no list for query {query.query_id!r}")
        return Run(
            tag=self.tag,
            rankings=RankedQueries.of((query.query_id, in_order(self._allowed(query)[:k])) for query in queries),
        )

    def _allowed(self, query: Query) -> list[DocId]:
        ranked = self._lists[query.query_id][: self._keep]
        dropped = query.excluded | {query.query_id} if self._drop_identical_ids else query.excluded
        return [doc_id for doc_id in ranked if doc_id not in dropped]
