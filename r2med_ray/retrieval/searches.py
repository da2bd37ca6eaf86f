"""The searches that rewritten queries ask for, and the one ranking that comes of them.

    query, texts → searches, each with a role → one run each → fused, then subtracted → one run

| use of a text                | its search                                                                        |
|------------------------------|-----------------------------------------------------------------------------------|
| joined, averaged or replaces | that of its query, see `query_construction`; one per text unless texts are `mean` |
| alone                        | the text in place of the query, fused with the search for the query as it is      |
| subtracted                   | the text in place of the query; its scores are taken away                         |

Searches are fused as `combine` says, see `fusion`; under `mean` by reciprocal rank. So several rewrites of a query
can be searched one by one, and their scores added as they come (`sum`) or on one scale (`minmax`, `zscore`).

Subtracting gives a document d the score

    s_query(d) - s_text(d)

as the scores come, not normalised, with the mean of s_text over several texts. This is the rule of contrastive
hypothesis retrieval (arXiv 2604.04593, weight 1), where the text describes what is easily mistaken for an answer. A
document that a list lacks counts the list's lowest score, for it would have got that or less. A list that isn't full
holds every document that matches at all, so a document that it lacks counts 0, as BM25 scores it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal, NamedTuple, TypeAlias

from r2med_ray.errors import DataError
from r2med_ray.ranking import best, require_finite
from r2med_ray.ranking_arrays import RankedQueries
from r2med_ray.retrieval.fusion import fuse_one
from r2med_ray.settings.config import FusionConfig
from r2med_ray.types import Combine, DocId, Expansion, Query, QueryId, Ranking, Rewriting, Run, ScoredDoc

Role: TypeAlias = Literal["fused", "subtracted"]


class Search(NamedTuple):
    """Queries that are searched for together, and what becomes of their ranking."""

    queries: tuple[Query, ...]
    role: Role


def searches_of(queries: Sequence[Query], combine: Combine) -> tuple[Search, ...]:
    """Return the searches that a system makes for queries; at least one, of role `fused`, over all of them.

    Args:
        queries: the queries with their expansions.
        combine: `mean` asks for all texts of a query at once. Otherwise the i-th search is made with each query's
            i-th text; a query that has fewer texts takes part as it is.
    """
    asked = [replace(query, expansions=_with_use(query, _SHARED)) for query in queries]
    texts = max((len(query.expansions) for query in asked), default=0)
    if combine == "mean" or texts < 2:
        together = [tuple(asked)]
    else:
        together = [
            tuple(replace(query, expansions=query.expansions[place : place + 1]) for query in asked)
            for place in range(texts)
        ]
    return (
        *(Search(search, "fused") for search in together),
        *(Search(search, "fused") for search in _of_texts(queries, "alone")),
        *(Search(search, "subtracted") for search in _of_texts(queries, "subtracted")),
    )


def searches_made(rewriting: Rewriting, combine: Combine) -> tuple[Search, ...]:
    """Return the searches that a rewriting leads to; none if an agent has ranked all queries. See `searches_of`."""
    queries = [query for query in rewriting.queries if query.query_id not in rewriting.ranked]
    return searches_of(queries, combine) if queries or not rewriting.ranked else ()


def combine_searches(searches: Sequence[Search], runs: Sequence[Run], combine: Combine = "mean", *, k: int) -> Run:
    """Return one run out of those of all searches; that of a single search as it is.

    Args:
        searches: as `searches_of` returned them.
        runs: one per search, in their order, each asked for k documents.
        combine: how searches are fused.
        k: length of the rankings.

    Raises:
        DataError: a run answers other queries than its search asked, a score is not finite, or a text is to be
            subtracted from a fused ranking, whose scores only tell ranks.
    """
    if len(searches) == 1:
        return runs[0]
    by_role: dict[Role, list[Mapping[QueryId, Ranking]]] = {"fused": [], "subtracted": []}
    for search, run in zip(searches, runs, strict=True):
        _require_answered(search, run)
        by_role[search.role].append(run.rankings)

    def found(query_id: QueryId, role: Role) -> list[Ranking]:
        return [rankings[query_id] for rankings in by_role[role] if query_id in rankings]

    return Run(
        tag=runs[0].tag,
        rankings=RankedQueries.of(
            (query_id, _combined(query_id, found(query_id, "fused"), found(query_id, "subtracted"), combine, k))
            for query_id in runs[0].rankings
        ),
    )


_SHARED = ("joined", "averaged", "replaces")


def _with_use(query: Query, uses: Sequence[str]) -> tuple[Expansion, ...]:
    return tuple(expansion for expansion in query.expansions if expansion.use in uses)


def _of_texts(queries: Sequence[Query], use: str) -> list[tuple[Query, ...]]:
    """Return one search per place of a text with a use, over the queries that have one there."""
    texts = [(query, _with_use(query, (use,))) for query in queries]
    most = max((len(of_query) for _, of_query in texts), default=0)
    return [
        tuple(
            replace(query, expansions=(replace(of_query[place], use="replaces"),))
            for query, of_query in texts
            if place < len(of_query)
        )
        for place in range(most)
    ]


def _combined(
    query_id: QueryId, fused: Sequence[Ranking], subtracted: Sequence[Ranking], combine: Combine, k: int
) -> Ranking:
    if not subtracted:
        return fused[0] if len(fused) == 1 else _fused(query_id, fused, combine, k)
    if len(fused) > 1:
        raise DataError(
            f"query {query_id!r}: a text can't be subtracted where {len(fused)} searches are fused, because fused "
            "scores only say ranks. Set `combine: mean`, and let no text of the query have the use `alone`"
        )
    for ranking in (*fused, *subtracted):
        require_finite(ranking, stage="subtract", query_id=query_id)
    of_query, *of_texts = [_Scores.of(ranking, k) for ranking in (*fused, *subtracted)]
    doc_ids = {doc_id for scores in (of_query, *of_texts) for doc_id in scores.by_id}
    return best(
        [
            ScoredDoc(doc_id, of_query.score(doc_id) - fmean(text.score(doc_id) for text in of_texts))
            for doc_id in doc_ids
        ],
        k,
    )


def _require_answered(search: Search, run: Run) -> None:
    if difference := {query.query_id for query in search.queries} ^ run.rankings.keys():
        raise DataError(
            f"run {run.tag!r} doesn't answer the queries of its search: {len(difference)} are in one of them only, "
            f"e.g. {min(difference)!r}"
        )


def _fused(query_id: QueryId, rankings: Sequence[Ranking], combine: Combine, k: int) -> Ranking:
    config = FusionConfig(method="rrf" if combine == "mean" else combine)
    return fuse_one(query_id, rankings, (1.0,) * len(rankings), config, k)


class _Scores(NamedTuple):
    """The scores of one list, and what a document counts that the list lacks."""

    by_id: Mapping[DocId, float]
    absent: float

    @classmethod
    def of(cls, ranking: Ranking, k: int) -> "_Scores":
        return cls({hit.doc_id: hit.score for hit in ranking}, ranking[-1].score if len(ranking) >= k else 0.0)

    def score(self, doc_id: DocId) -> float:
        return self.by_id.get(doc_id, self.absent)
