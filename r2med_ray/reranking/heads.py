"""Reorders the head of each ranking, which is its first documents.

The documents below the head stay below it, in their order. The scores in a run file decide its order, so the
documents below the head get new scores: the head's lowest score minus one step, minus two steps, ... A step is 1, or
2⁻²² times the size of that lowest score if this is more. A smaller step could be lost in float32: two neighbouring
float32 values differ by at most 2⁻²³ times their size.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from r2med_ray.demands import Reranker, Steps
from r2med_ray.errors import DataError
from r2med_ray.protocols import Candidates
from r2med_ray.ranking import best, require_finite
from r2med_ray.ranking_arrays import RankedQueries
from r2med_ray.reranking.blending import Blend
from r2med_ray.types import DocId, Document, Query, QueryId, Ranking, Repairs, Reranking, Run, ScoredDoc

logger = logging.getLogger(__name__)


class Reranked(NamedTuple):
    """A reordered run, and the scores that it was reordered by."""

    run: Run
    reranking: Reranking


def head_ids(run: Run, depth: int) -> frozenset[DocId]:
    """Return the ids of all documents in the heads, which a reranker will read."""
    return frozenset(hit.doc_id for ranking in run.rankings.values() for hit in ranking[:depth])


def rerank(
    run: Run,
    reranker: Reranker,
    queries: Sequence[Query],
    documents: Mapping[DocId, Document],
    *,
    depth: int,
    tag: str,
    keep_rest: bool = True,
    blend: Blend | None = None,
) -> Steps[Reranked]:
    """Order the first `depth` documents of every ranking by a reranker's scores.

    The reranker sees the user's query and never the rewritten one, as in the published protocol. Only the order of
    the head's documents changes, so recall at `depth` can't change. Under `keep_rest` deeper recall can't change
    either.

    Args:
        run: the first stage's run.
        reranker: scores the heads of all queries in one call, so that a server can batch across queries.
        queries: exactly the queries that the run answers.
        documents: at least the documents of `head_ids`.
        depth: how many documents of each ranking are scored.
        tag: the tag of the new run.
        keep_rest: whether the new run keeps the documents below the head. The published runs leave them out.
        blend: the first stage's part in the order; None for none.

    Raises:
        DataError: queries and run differ, a document or a score is missing, or a score is not finite.
    """
    by_id = {query.query_id: query for query in queries}
    if difference := by_id.keys() ^ run.rankings.keys():
        raise DataError(f"run {run.tag!r} and its queries differ in {len(difference)} ids, e.g. {min(difference)!r}")
    heads = ((query_id, ranking[:depth]) for query_id, ranking in run.rankings.items())
    work = [_candidates(by_id[query_id], head, documents) for query_id, head in heads if head]
    reranking = yield from reranker.score_all(work)
    scores = reranking.scores
    _warn_of_ties(scores)

    def reordered(query_id: QueryId, ranking: Ranking) -> Ranking:
        head, rest = ranking[:depth], ranking[depth:] if keep_rest else ()
        of_head = scores.get(query_id, [])
        if blend is not None:
            of_head = _blended(query_id, head, (reranking.values or scores).get(query_id, []), blend)
        return _reordered(query_id, head, of_head, rest)

    rankings = RankedQueries.of(
        (query_id, reordered(query_id, ranking)) for query_id, ranking in run.rankings.items()
    )
    return Reranked(Run(tag=tag, rankings=rankings), reranking)


def repairs_together(one: Repairs, other: Repairs) -> Repairs:
    """Return the repairs of two rerankers of a cascade, sorted by query id and by rule."""
    rules, unreadable = (
        {q: dict(sorted((Counter(of.get(q)) + Counter(also.get(q))).items())) for q in sorted({**of, **also})}
        for of, also in ((one.rules, other.rules), (one.unreadable, other.unreadable))
    )
    return Repairs(rules=rules, unreadable=unreadable)


def _candidates(query: Query, head: Ranking, documents: Mapping[DocId, Document]) -> Candidates:
    """Return the candidates that a reranker is shown for one query: the query without expansions, and the head."""
    for hit in head:
        if hit.doc_id not in documents:
            raise DataError(f"rerank: query {query.query_id!r}, document {hit.doc_id!r} was not read from the corpus")
    return Candidates(
        query=replace(query, expansions=()),
        documents=tuple(documents[hit.doc_id] for hit in head),
        scores=tuple(hit.score for hit in head),
    )


def _blended(query_id: QueryId, head: Ranking, values: Sequence[float], blend: Blend) -> Sequence[float]:
    require_finite(_scored(query_id, head, values), stage="rerank", query_id=query_id)
    return blend.scores(values, [hit.score for hit in head]) if head else []


def _reordered(query_id: QueryId, head: Ranking, scores: Sequence[float], rest: Ranking) -> Ranking:
    scored = _scored(query_id, head, scores)
    reordered = best(scored, len(scored))
    ranking = (*reordered, *_below(reordered, rest))
    require_finite(ranking, stage="rerank", query_id=query_id)
    return ranking


def _scored(query_id: QueryId, head: Ranking, scores: Sequence[float]) -> Ranking:
    if len(scores) != len(head):
        first_without = head[len(scores)].doc_id if len(scores) < len(head) else None
        raise DataError(
            f"rerank: query {query_id!r} has {len(head)} candidates and got {len(scores)} scores"
            + (f"; the first without one is {first_without!r}" if first_without is not None else "")
        )
    return tuple(ScoredDoc(hit.doc_id, score) for hit, score in zip(head, scores, strict=True))


def _below(head: Ranking, rest: Ranking) -> Ranking:
    """Return the documents of `rest` with new scores: falling float32 values below the head's lowest score."""
    if not rest:
        return ()
    lowest = head[-1].score
    step = max(1.0, abs(lowest) * 2.0**-22)
    with np.errstate(over="ignore", invalid="ignore"):  # a score that is not finite is refused later
        scores_N = (lowest - step * np.arange(1, len(rest) + 1)).astype(np.float32)
    return tuple(ScoredDoc(hit.doc_id, score) for hit, score in zip(rest, scores_N.tolist(), strict=True))


def _warn_of_ties(scores: Mapping[QueryId, Sequence[float]]) -> None:
    """Log a warning if most queries have the same score for all their candidates.

    A reranker that gives such scores has not read the candidates: its prompt or template is broken.
    """
    contested = [of_query for of_query in scores.values() if len(of_query) > 1]
    tied = sum(len(set(of_query)) == 1 for of_query in contested)
    if 2 * tied > len(contested):
        logger.warning("rerank: all candidates tie in %d of %d queries", tied, len(contested))
