"""Reorders the head of a run; what is below stays below, in its order.

A run file's order is that of its scores, so the documents below the head get new ones: the head's lowest score minus
one step, two steps, ... A step is 1, or 2⁻²² of that score where 1 would be lost in float32, whose neighbours lie at
most 2⁻²³ of a number apart.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from r2med_ray.errors import DataError
from r2med_ray.protocols import Candidates, Reranker
from r2med_ray.ranking import best, require_finite
from r2med_ray.types import DocId, Document, Query, QueryId, Ranking, Reranking, Run, ScoredDoc

logger = logging.getLogger(__name__)


class Reranked(NamedTuple):
    """A reordered run, and the scores that it was reordered by."""

    run: Run
    reranking: Reranking


def head_ids(run: Run, depth: int) -> frozenset[DocId]:
    """Return the ids of all documents that a reranker will read."""
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
) -> Reranked:
    """Order the first `depth` documents of every ranking by a reranker's scores.

    The reranker sees the user's query, never what a rewriter made of it, as in the published protocol. The same
    documents come out as went in, so recall at `depth` and below it can't change.

    Args:
        run: the first stage.
        reranker: scores all heads in one call, so that a server can batch across queries.
        queries: exactly those that the run answers.
        documents: at least those of `head_ids`.
        depth: how many documents of each ranking are scored.
        tag: tag of the new run.
        keep_rest: False leaves out what is below the head, as the published runs do.

    Raises:
        DataError: queries and run differ, a document or a score is missing, or a score is not finite.
    """
    by_id = {query.query_id: query for query in queries}
    if difference := by_id.keys() ^ run.rankings.keys():
        raise DataError(f"run {run.tag!r} and its queries differ in {len(difference)} ids, e.g. {min(difference)!r}")
    heads = {query_id: ranking[:depth] for query_id, ranking in run.rankings.items()}
    reranking = reranker.score_all(
        [
            Candidates(
                replace(by_id[query_id], expansions=()),
                _documents(query_id, head, documents),
                [hit.score for hit in head],
            )
            for query_id, head in heads.items()
            if head
        ]
    )
    scores = reranking.scores
    _warn_of_ties(scores)
    rankings = {
        query_id: _reordered(
            query_id, heads[query_id], scores.get(query_id, []), ranking[depth:] if keep_rest else ()
        )
        for query_id, ranking in run.rankings.items()
    }
    return Reranked(Run(tag=tag, rankings=rankings), reranking)


def _documents(query_id: QueryId, head: Ranking, documents: Mapping[DocId, Document]) -> list[Document]:
    for hit in head:
        if hit.doc_id not in documents:
            raise DataError(f"rerank: query {query_id!r}, document {hit.doc_id!r} was not read from the corpus")
    return [documents[hit.doc_id] for hit in head]


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
    """Give the documents of `rest` falling scores, as float32 values, under the lowest of the head."""
    if not rest:
        return ()
    lowest = head[-1].score
    step = max(1.0, abs(lowest) * 2.0**-22)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused with its document
        scores_N = (lowest - step * np.arange(1, len(rest) + 1)).astype(np.float32)
    return tuple(ScoredDoc(hit.doc_id, score) for hit, score in zip(rest, scores_N.tolist(), strict=True))


def _warn_of_ties(scores: Mapping[QueryId, Sequence[float]]) -> None:
    """A reranker that gives all candidates of a query one score has not read them (a broken prompt or template)."""
    contested = [of_query for of_query in scores.values() if len(of_query) > 1]
    tied = sum(len(set(of_query)) == 1 for of_query in contested)
    if 2 * tied > len(contested):
        logger.warning("rerank: all candidates tie in %d of %d queries", tied, len(contested))
