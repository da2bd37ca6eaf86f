"""How far a figure depends on the order of documents that have the same text and the same score.

Such documents are ordered by their ids, and often only one of them is judged. No retriever can tell them apart, so
each order is as right as any other. The range of a figure is its least and its greatest value over these orders.

Where one retriever makes the whole ranking, equal texts have equal scores. So a copy that a full ranking lacks ties
with a ranked copy at its last score. A fusion or a reranker may give copies other scores: a copy that is
ranked lower in one list, or that no reranker read, ties with none. What score a copy had that was cut off isn't known
there, and only copies in the ranking that have equal scores are exchanged.
"""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from r2med_ray.evaluation.evaluate import Evaluation, evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.types import DocId, Qrels, QueryId, Ranking, Run, ScoredDoc

TOLERANCE = 1e-12
"""Differences up to this are rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieRange:
    """The range of one measure's mean over the orders of tied equal texts."""

    num_queries: int
    """Queries whose value depends on the order."""

    least: float
    greatest: float

    with_cut_off: bool = True
    """Whether copies that were cut off a full ranking are exchanged, too, with those at its last score."""


def tie_ranges(
    run: Run,
    qrels: Qrels,
    same_texts: Sequence[Sequence[DocId]],
    measures: Sequence[Measure],
    evaluation: Evaluation,
    *,
    depth: int | None,
    excluded: Mapping[QueryId, Set[DocId]] = {},
) -> dict[str, TieRange]:
    """Return measure → range, for each measure that depends on such an order for at least one query.

    Only measures that look at positives alone have a range: for these, positives first is best and positives last is
    worst. Where a ranking of one retriever is full, documents of a text that is at its last score may have been cut
    off for their ids; they are part of the orders, too.

    Args:
        run: the run that was measured.
        qrels: the judgements.
        same_texts: groups of documents with the same text.
        measures: the measures of the evaluation.
        evaluation: the values of the run.
        depth: the length of a full ranking, if equal texts that were cut off had the scores of those in the ranking;
            None if they may have had others, as after fusion or reranking: then only ranked documents are exchanged.
        excluded: the documents that must not be in the ranking of a query.
    """
    wanted = [measure for measure in measures if measure.definition.positives_only]
    group_of = {doc_id: group for group in same_texts for doc_id in group}
    worst: dict[QueryId, Ranking] = {}
    best: dict[QueryId, Ranking] = {}
    for query_id in evaluation.num_positives if group_of and wanted else ():
        ranking = run.rankings.get(query_id, ())
        ties = _ties(ranking, group_of, depth, excluded.get(query_id, frozenset()))
        if any(len({max(qrels[query_id].get(doc_id, 0), 0) for doc_id in group}) > 1 for _, group in ties):
            worst[query_id] = _reordered(ranking, ties, qrels[query_id], best_first=False)
            best[query_id] = _reordered(ranking, ties, qrels[query_id], best_first=True)
    if not best:
        return {}
    judged = {query_id: qrels[query_id] for query_id in best}
    low, high = (evaluate(Run(tag=run.tag, rankings=rankings), judged, wanted) for rankings in (worst, best))
    ranges = {str(measure): _range(str(measure), evaluation, low, high, depth is not None) for measure in wanted}
    return {measure: found for measure, found in ranges.items() if found.num_queries}


def _ties(
    ranking: Ranking, group_of: Mapping[DocId, Sequence[DocId]], depth: int | None, excluded: Set[DocId]
) -> list[tuple[list[int], list[DocId]]]:
    """Return (places, documents that may have them) of each text that several documents of one score share."""
    ranked = {hit.doc_id for hit in ranking}
    places: dict[tuple[float, Sequence[DocId]], list[int]] = {}
    for place, hit in enumerate(ranking):
        if hit.doc_id in group_of:
            places.setdefault((float(np.float32(hit.score)), group_of[hit.doc_id]), []).append(place)
    is_full = depth is not None and len(ranking) >= depth
    cut_at = float(np.float32(ranking[-1].score)) if is_full else None
    ties = []
    for (score, group), taken in places.items():
        cut_off = [doc_id for doc_id in group if doc_id not in ranked and doc_id not in excluded]
        documents = [ranking[place].doc_id for place in taken] + (cut_off if score == cut_at else [])
        if len(documents) > 1:
            ties.append((taken, documents))
    return ties


def _reordered(
    ranking: Ranking, ties: list[tuple[list[int], list[DocId]]], grades: Mapping[DocId, int], *, best_first: bool
) -> Ranking:
    doc_ids = [hit.doc_id for hit in ranking]
    for places, documents in ties:
        ordered = sorted(documents, key=lambda doc_id: max(grades.get(doc_id, 0), 0), reverse=best_first)
        for place, doc_id in zip(places, ordered, strict=False):
            doc_ids[place] = doc_id
    return tuple(ScoredDoc(doc_id, -float(place)) for place, doc_id in enumerate(doc_ids))


def _range(measure: str, evaluation: Evaluation, low: Evaluation, high: Evaluation, with_cut_off: bool) -> TieRange:
    measured, least, greatest = (each.values(measure) for each in (evaluation, low, high))
    count = evaluation.num_queries
    return TieRange(
        num_queries=sum(greatest[query_id] - least[query_id] > TOLERANCE for query_id in least),
        least=math.fsum((measured | least).values()) / count,
        greatest=math.fsum((measured | greatest).values()) / count,
        with_cut_off=with_cut_off,
    )
