"""Reorders the head of a run: its first documents. The documents below the head stay below, in their order.

The scores in a run file decide its order, so the documents below the head get new scores: the head's lowest score
minus one step, minus two steps, ... A step is 1, or 2⁻²² of that lowest score where 1 would be lost in float32, whose
neighbours lie at most 2⁻²³ of a number apart.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from r2med_ray.demands import Reranker, Steps
from r2med_ray.errors import DataError
from r2med_ray.protocols import Candidates
from r2med_ray.ranking import best, require_finite
from r2med_ray.types import DocId, Document, Query, QueryId, Ranking, Reranking, Run, ScoredDoc

logger = logging.getLogger(__name__)


class Reranked(NamedTuple):
    """A reordered run, and the scores that it was reordered by."""

    run: Run
    reranking: Reranking


def head_ids(run: Run, depth: int) -> frozenset[DocId]:
    """Return the ids of all documents in the heads: those that a reranker will read."""
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
) -> Steps[Reranked]:
    """Order the first `depth` documents of every ranking by a reranker's scores.

    The reranker sees the user's query, never what a rewriter made of it, as in the published protocol. Every ranking
    keeps its documents and only their order changes, so recall at `depth` or deeper can't change.

    Args:
        run: the first stage's run.
        reranker: scores the heads of all queries in one call, so that a server can batch across queries.
        queries: exactly those that the run answers.
        documents: at least those of `head_ids`.
        depth: how many documents of each ranking are scored.
        tag: tag of the new run.
        keep_rest: False leaves out the documents below the head, as the published runs do.

    Raises:
        DataError: queries and run differ, a document or a score is missing, or a score is not finite.
    """
    by_id = {query.query_id: query for query in queries}
    if difference := by_id.keys() ^ run.rankings.keys():
        raise DataError(f"run {run.tag!r} and its queries differ in {len(difference)} ids, e.g. {min(difference)!r}")
    heads = {query_id: ranking[:depth] for query_id, ranking in run.rankings.items()}
    work = [_candidates(by_id[query_id], head, documents) for query_id, head in heads.items() if head]
    reranking = yield from reranker.score_all(work)
    scores = reranking.scores
    _warn_of_ties(scores)
    rankings = {
        query_id: _reordered(
            query_id, heads[query_id], scores.get(query_id, []), ranking[depth:] if keep_rest else ()
        )
        for query_id, ranking in run.rankings.items()
    }
    return Reranked(Run(tag=tag, rankings=rankings), reranking)


def _candidates(query: Query, head: Ranking, documents: Mapping[DocId, Document]) -> Candidates:
    """Return what a reranker is shown for one query: the query without expansions, and the head."""
    for hit in head:
        if hit.doc_id not in documents:
            raise DataError(f"rerank: query {query.query_id!r}, document {hit.doc_id!r} was not read from the corpus")
    return Candidates(
        query=replace(query, expansions=()),
        documents=tuple(documents[hit.doc_id] for hit in head),
        scores=tuple(hit.score for hit in head),
    )


def _reordered(query_id: QueryId, head: Ranking, scores: Sequence[float], rest: Ranking) -> Ranking:
    if len(scores) != len(head):
        first_without = head[len(scores)].doc_id if len(scores) < len(head) else None
        raise DataError(
            f"rerank: query {query_id!r} has {len(head)} candidates and got {len(scores)} scores"
            + (f"; the first without one is {first_without!r}" if first_without is not None else "")
        )
    scored = [ScoredDoc(hit.doc_id, score) for hit, score in zip(head, scores, strict=True)]
    reordered = best(scored, len(scored))
    ranking = (*reordered, *_below(reordered, rest))
    require_finite(ranking, stage="rerank", query_id=query_id)
    return ranking


def _below(head: Ranking, rest: Ranking) -> Ranking:
    """Give the documents of `rest` falling scores, as float32 values, below the head's lowest score."""
    if not rest:
        return ()
    lowest = head[-1].score
    step = max(1.0, abs(lowest) * 2.0**-22)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused with its document
        scores_N = (lowest - step * np.arange(1, len(rest) + 1)).astype(np.float32)
    return tuple(ScoredDoc(hit.doc_id, score) for hit, score in zip(rest, scores_N.tolist(), strict=True))


def _warn_of_ties(scores: Mapping[QueryId, Sequence[float]]) -> None:
    """Log a warning where most queries have one score for all their candidates.

    A reranker that scores so has not read them: its prompt or template is broken.
    """
    contested = [of_query for of_query in scores.values() if len(of_query) > 1]
    tied = sum(len(set(of_query)) == 1 for of_query in contested)
    if 2 * tied > len(contested):
        logger.warning("rerank: all candidates tie in %d of %d queries", tied, len(contested))
