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
from r2med_ray.ranking import ordered, require_finite
from r2med_ray.ranking_arrays import RankedQueries, RankingArrays, as_arrays
from r2med_ray.reranking.blending import Blend
from r2med_ray.types import DocId, Document, Query, QueryId, Ranking, Repairs, Reranking, Run, ScoredDoc

logger = logging.getLogger(__name__)


class Reranked(NamedTuple):
    """A reordered run, and the scores that it was reordered by."""

    run: Run
    reranking: Reranking


def head_ids(run: Run, depth: int) -> frozenset[DocId]:
    """Return the ids of all documents in the heads, which a reranker will read."""
    return frozenset(as_arrays(run.rankings).heads(depth).arrays.doc_ids.to_pylist())


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
    ranked = as_arrays(run.rankings)
    heads = ranked.heads(depth)
    work = [_candidates(by_id[query_id], ranking, documents) for query_id, ranking in heads.items() if ranking]
    reranking = yield from reranker.score_all(work)
    scores = reranking.scores
    _warn_of_ties(scores)

    def reordered(query_id: QueryId, ranking: Ranking) -> Ranking:
        of_head = scores.get(query_id, [])
        if blend is not None:
            of_head = _blended(query_id, ranking, (reranking.values or scores).get(query_id, []), blend)
        return _reordered(query_id, ranking, of_head)

    rankings = RankedQueries.of((query_id, reordered(query_id, ranking)) for query_id, ranking in heads.items())
    if keep_rest:
        rankings = RankedQueries(rankings, rankings.arrays.above(_below(rankings, ranked.arrays.rests(depth))))
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
    _require_all(query_id, head, values)
    scored = (ScoredDoc(hit.doc_id, value) for hit, value in zip(head, values, strict=True))
    require_finite(scored, stage="rerank", query_id=query_id)
    return blend.scores(values, [hit.score for hit in head]) if head else []


def _reordered(query_id: QueryId, head: Ranking, scores: Sequence[float]) -> Ranking:
    _require_all(query_id, head, scores)
    ranking = ordered(scores, [hit.doc_id for hit in head], len(head))
    require_finite(ranking, stage="rerank", query_id=query_id)
    return ranking


def _require_all(query_id: QueryId, head: Ranking, scores: Sequence[float]) -> None:
    if len(scores) != len(head):
        first_without = head[len(scores)].doc_id if len(scores) < len(head) else None
        raise DataError(
            f"rerank: query {query_id!r} has {len(head)} candidates and got {len(scores)} scores"
            + (f"; the first without one is {first_without!r}" if first_without is not None else "")
        )


def _below(heads: RankedQueries, rest: RankingArrays) -> RankingArrays:
    """Return the documents of `rest` with new scores: falling float32 values below the lowest score of their head.

    Raises:
        DataError: there is no float32 value so low; names the query and the document.
    """
    lowest_Q = np.append(heads.arrays.score, np.float32(0))[heads.arrays.start[1:] - 1].astype(np.float64)
    step_Q = np.maximum(1.0, np.abs(lowest_Q) * 2.0**-22)
    place_H = np.repeat(np.arange(len(rest)), rest.lengths)
    rank_H = np.arange(1, len(place_H) + 1) - rest.start[place_H]
    with np.errstate(over="ignore"):  # refused in the next line
        below = replace(rest, score=(lowest_Q[place_H] - step_Q[place_H] * rank_H).astype(np.float32))
    if not np.isfinite(below.score).all():
        for query_id, ranking in RankedQueries(heads, below).items():
            require_finite(ranking, stage="rerank", query_id=query_id)
    return below


def _warn_of_ties(scores: Mapping[QueryId, Sequence[float]]) -> None:
    """Log a warning if most queries have the same score for all their candidates.

    A reranker that gives such scores has not read the candidates: its prompt or template is broken.
    """
    contested = [of_query for of_query in scores.values() if len(of_query) > 1]
    tied = sum(len(set(of_query)) == 1 for of_query in contested)
    if 2 * tied > len(contested):
        logger.warning("rerank: all candidates tie in %d of %d queries", tied, len(contested))
