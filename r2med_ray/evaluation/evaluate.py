"""Averages measures over the judged queries, and counts the queries that a mean doesn't show.

The mean is over every query that has a positive judgement. A query that the run doesn't answer counts 0.
"""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from r2med_ray.errors import DataError, StageError
from r2med_ray.evaluation.judged import Found, Judgements, find_judged, judgements
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.ranked import rows_of_run
from r2med_ray.evaluation.run_columns import ScatteredQueryError, read_pieces, read_rows
from r2med_ray.evaluation.run_lines import OnlyTrecEvalReadsError
from r2med_ray.storage.arrow import in_lean_memory
from r2med_ray.types import Qrels, QueryId, Run

PerQuery: TypeAlias = Mapping[QueryId, Mapping[str, float]]
"""query_id → measure → value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How well one run answers the queries of one task."""

    means: Mapping[str, float]
    """Measure → mean over the `num_queries` queries that have a positive judgement."""

    per_query: Mapping[QueryId, Mapping[str, float]]
    """query_id → measure → value, for every query of the qrels; 0 for a query without a positive."""

    num_positives: Mapping[QueryId, int]
    """Positive judgements of each query that is in the mean."""

    num_unanswered: int
    """Queries in the mean for which the run ranks nothing; each counts 0."""

    num_unjudged: int
    """Queries of the run that the qrels don't have; they don't count."""

    @property
    def num_queries(self) -> int:
        """Queries in the mean."""
        return len(self.num_positives)

    @property
    def num_without_positives(self) -> int:
        """Queries of the qrels that are not in the mean."""
        return len(self.per_query) - len(self.num_positives)

    def values(self, measure: str) -> dict[QueryId, float]:
        """Return the values that the mean of a measure is over."""
        return {query_id: self.per_query[query_id][measure] for query_id in self.num_positives}


def evaluate(run: Run, qrels: Qrels, measures: Sequence[Measure]) -> Evaluation:
    """Measure a run.

    Raises:
        DataError: run and qrels have no query in common, no query has a positive, a score is not finite, or a query
            ranks a document twice.
        StageError: a value of a measure is not finite.
    """
    judged = _with_positives(qrels, measures)
    return _evaluation(qrels, judged, find_judged(judged, rows_of_run(run)), measures)


def evaluate_file(path: Path, qrels: Qrels, measures: Sequence[Measure]) -> Evaluation:
    """Measure a TREC run file. It is read in pieces if the lines of each query are together, and else as a whole.

    Raises:
        DataError: see `evaluate`; or a line of the file is malformed.
        StageError: a value of a measure is not finite.
    """
    judged = _with_positives(qrels, measures)
    try:
        found = _find_in_file(path, judged)
    except OnlyTrecEvalReadsError as error:
        way = "comments and fields after the tag are read by `r2med evaluate --as trec_eval`"
        raise DataError(f"{error}; {way}") from error
    return _evaluation(qrels, judged, found, measures)


FEW_SHARED = 0.5
"""Share of the judged queries. A run that answers fewer of them may be the run of another split."""


def few_shared(evaluation: Evaluation) -> str:
    """Return a sentence if the run answers few queries of the qrels, or answers many that are none; else nothing."""
    judged, unjudged = evaluation.num_queries, evaluation.num_unjudged
    answered = judged - evaluation.num_unanswered
    if answered >= FEW_SHARED * judged and answered >= FEW_SHARED * (answered + unjudged):
        return ""
    return (
        f"run and qrels share few queries: {answered} of the {judged} queries with a positive judgement are answered "
        f"and {unjudged} queries of the run are not in the qrels; are both of the same task and split?"
    )


def values_as_trec_eval(path: Path, qrels: Qrels, measures: Sequence[Measure]) -> tuple[PerQuery, Set[QueryId]]:
    """Return the values of every query of the qrels, and the queries that a run file answers, judged or not.

    As in trec_eval, comments and fields after the tag are passed over, and no query needs a positive judgement.

    Raises:
        DataError: run and qrels have no query in common, or a line of the file is malformed.
        StageError: a value of a measure is not finite.
    """
    judged = _judgements(qrels, measures)
    found = _find_in_file(path, judged, as_trec_eval=True)
    return _per_query(qrels, judged, found, measures), found.num_ranked.keys()


def _with_positives(qrels: Qrels, measures: Sequence[Measure]) -> Judgements:
    """Return the judgements, if a mean has something to be over.

    Raises:
        DataError: no query has a positive judgement.
    """
    judged = _judgements(qrels, measures)
    if not judged.position:
        raise DataError(f"none of the {len(qrels)} queries of the qrels has a judgement above 0")
    return judged


def _judgements(qrels: Qrels, measures: Sequence[Measure]) -> Judgements:
    return judgements(qrels, positives_only=_positives_only(measures))


def _find_in_file(path: Path, judged: Judgements, *, as_trec_eval: bool = False) -> Found:
    try:
        with in_lean_memory():
            return find_judged(judged, read_pieces(path, as_trec_eval=as_trec_eval))
    except ScatteredQueryError:
        return find_judged(judged, [read_rows(path, as_trec_eval=as_trec_eval)])


def _positives_only(measures: Sequence[Measure]) -> bool:
    """Return whether every measure looks at positives alone. If so, no other judgement has to be looked up."""
    return all(measure.definition.positives_only for measure in measures)


def _evaluation(qrels: Qrels, judged: Judgements, found: Found, measures: Sequence[Measure]) -> Evaluation:
    per_query = _per_query(qrels, judged, found, measures)
    positives = zip(judged.position, judged.ideal.counts.tolist(), strict=True)
    return Evaluation(
        means={
            name: math.fsum(per_query[query_id][name] for query_id in judged.position) / len(judged.position)
            for name in map(str, measures)
        },
        per_query=per_query,
        num_positives=dict(positives),
        num_unanswered=sum(not found.num_ranked.get(query_id) for query_id in judged.position),
        num_unjudged=len(found.num_ranked.keys() - qrels.keys()),
    )


def _per_query(qrels: Qrels, judged: Judgements, found: Found, measures: Sequence[Measure]) -> PerQuery:
    if qrels.keys().isdisjoint(found.num_ranked):
        example = f"e.g. {min(found.num_ranked)!r}" if found.num_ranked else "none at all"
        raise DataError(
            f"no query in common: the run answers {len(found.num_ranked)} queries, {example}; "
            f"the qrels judge {len(qrels)}, e.g. {min(qrels)!r}"
        )
    columns = {str(measure): _values(measure, found, judged) for measure in measures}
    nothing = dict.fromkeys(columns, 0.0)
    return dict.fromkeys(qrels, nothing) | {
        query_id: {name: values[index] for name, values in columns.items()}
        for query_id, index in judged.position.items()
    }


def _values(measure: Measure, found: Found, judged: Judgements) -> list[float]:
    """Return the value of each query with a positive."""
    values: list[float] = measure.values(found.rankings).tolist()
    for query_id, value in zip(judged.position, values, strict=True):
        if not math.isfinite(value):
            raise StageError("evaluate", f"query {query_id!r}", f"{measure} is {value}, which is no finite number")
    return values
