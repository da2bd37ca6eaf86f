"""Rules that the results of every system keep, and checks that raise if a result breaks one.

A value is within the bounds of its measure. A deeper cut-off finds at least as much. A reranker changes no recall at
its depth. The published result files keep all of these rules. So a figure that breaks one is certainly wrong.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from r2med_ray.errors import StageError
from r2med_ray.evaluation.measures import Measure
from r2med_ray.ranking_arrays import as_arrays
from r2med_ray.types import Qrels, QueryId, Run

EPSILON = 1e-9


def require_same_head(first: Run, reranked: Run, depth: int) -> None:
    """Check that reranking moved no document into the head or out of it, so that recall at `depth` is unchanged.

    Raises:
        StageError: the heads hold other documents. The message names the query and a document.
    """
    heads, of_reranked = (as_arrays(run.rankings).heads(depth) for run in (first, reranked))
    for query_id, ranking in heads.items():
        after = {hit.doc_id for hit in of_reranked.get(query_id, ())}
        if changed := {hit.doc_id for hit in ranking} ^ after:
            raise StageError(
                "rerank",
                f"query {query_id!r}",
                f"the first {depth} documents of {reranked.tag!r} are not those it was given: {len(changed)} differ, "
                f"e.g. {min(changed)!r}",
            )


def require_possible(
    per_query: Mapping[QueryId, Mapping[str, float]], measures: Sequence[Measure], qrels: Qrels, *, unit: str
) -> None:
    """Check the values of every query.

    Args:
        per_query: query → measure → value.
        measures: the measures that the values are of.
        qrels: the judgements; they say which queries are judged in two grades only.
        unit: what was measured, for the message.

    Raises:
        StageError: the values of a query break a rule. The message names the query and the rule.
    """
    named = {measure: str(measure) for measure in measures}
    for query_id, values in per_query.items():
        binary = set(qrels.get(query_id, {}).values()) <= {0, 1}
        of_query = {measure: values[name] for measure, name in named.items()}
        for problem in violations(of_query, queries=1, binary=binary):
            raise StageError("evaluate", f"{unit}, query {query_id!r}", problem)


def violations(
    values: Mapping[Measure, float], *, queries: int, binary: bool = True, tolerance: float = EPSILON
) -> list[str]:
    """Return the rules that the means over some queries break.

    Args:
        values: measure → mean, on the scale of the measure, which is 0 to 1 for a share.
        queries: the number of queries that the means are over.
        binary: whether every judgement is 0 or 1. If so, nDCG@1 equals P@1.
        tolerance: how far rounding may have moved the values.
    """
    return [
        *_out_of_bounds(values, tolerance),
        *_shrinking(values, tolerance),
        *_fractional(values, queries, tolerance),
        *(_unequal_firsts(values, tolerance) if binary else ()),
    ]


def _out_of_bounds(values: Mapping[Measure, float], tolerance: float) -> Iterable[str]:
    for measure, value in values.items():
        low, high = measure.definition.low, measure.definition.high
        if not math.isfinite(value):
            yield f"{measure} is {value}, which is no finite number"
        elif low is not None and value < low - tolerance:
            yield f"{measure} is {value}, which is {'no share' if measure.is_share else f'below {low:g}'}"
        elif high is not None and value > high + tolerance:
            yield f"{measure} is {value}, which is {'no share' if measure.is_share else f'above {high:g}'}"


def _shrinking(values: Mapping[Measure, float], tolerance: float) -> Iterable[str]:
    """Yield each measure that falls from one cut-off to a deeper one, although it can only grow."""
    by_kind: dict[tuple[object, ...], list[Measure]] = {}
    for measure in values:
        if measure.definition.grows:
            by_kind.setdefault((measure.name, measure.parameters), []).append(measure)
    for measures in by_kind.values():
        deeper = sorted(measures, key=lambda measure: measure.cutoff or math.inf)
        for shallow, deep in pairwise(deeper):
            if values[shallow] > values[deep] + tolerance:
                yield f"{shallow} is {values[shallow]} and {deep} only {values[deep]}"


def _fractional(values: Mapping[Measure, float], queries: int, tolerance: float) -> Iterable[str]:
    """Yield each precision that doesn't stand for a whole number of documents."""
    for measure, value in values.items():
        if measure.name == "P" and measure.cutoff is not None:
            scale = measure.cutoff * queries
            if abs(value * scale - round(value * scale)) > tolerance * scale:
                yield f"{measure} is {value}, {value * scale:.4f} relevant documents in {scale} places"


def _unequal_firsts(values: Mapping[Measure, float], tolerance: float) -> Iterable[str]:
    ndcg, precision = values.get(Measure("nDCG", 1)), values.get(Measure("P", 1))
    if ndcg is not None and precision is not None and abs(ndcg - precision) > tolerance:
        yield f"nDCG@1 is {ndcg} and P@1 is {precision}, although every judgement is 0 or 1"
