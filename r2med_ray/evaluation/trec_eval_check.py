"""Checks values of measures with trec_eval, through pytrec_eval, for every measure that trec_eval has."""

from collections.abc import Mapping, Sequence

from r2med_ray.errors import StageError
from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.ranked import QUERIES_AT_ONCE
from r2med_ray.ranking_arrays import as_arrays
from r2med_ray.types import Qrels, QueryId, Run

TOLERANCE = 1e-9


def check_with_trec_eval(run: Run, qrels: Qrels, measures: Sequence[Measure], evaluation: Evaluation) -> None:
    """Require that trec_eval gives the same value for every query and measure, and the same means.

    Measures that trec_eval lacks are passed over; `measures.not_checked` names them. trec_eval gives no value to a
    query that the run doesn't answer; by our rule the value is 0. By our rule the value of a query without a positive
    is 0, too. trec_eval isn't given such a query, because it reads memory that isn't its own if all grades of a query
    are below 0.

    Raises:
        StageError: a value differs by more than `TOLERANCE`. The message names query, measure and both values.
    """
    import pytrec_eval

    checked = {measure: name for measure in measures if (name := measure.trec_eval_name)}
    if not checked:
        return
    counted = {
        query_id: {doc_id: int(grade) for doc_id, grade in judged.items()}
        for query_id, judged in qrels.items()
        if any(grade > 0 for grade in judged.values())
    }
    evaluator = pytrec_eval.RelevanceEvaluator(counted, set(checked.values()))
    theirs: dict[QueryId, Mapping[str, float]] = {}
    for part in as_arrays(run.rankings).parts(QUERIES_AT_ONCE):
        theirs |= evaluator.evaluate({query_id: dict(ranking) for query_id, ranking in part.items()})
    for measure in checked:
        values = {query_id: _value(theirs.get(query_id, {}), measure) for query_id in qrels}
        for query_id, value in values.items():
            _compare(f"query {query_id!r}", measure, evaluation.per_query[query_id][str(measure)], value)
        mean = sum(values[query_id] for query_id in counted) / len(counted)
        _compare("the mean", measure, evaluation.means[str(measure)], mean)


def _value(theirs: Mapping[str, float], measure: Measure) -> float:
    """Return trec_eval's value for one query; 0 if trec_eval gives none."""
    value = theirs.get((measure.trec_eval_name or "").replace(".", "_"), 0.0)
    names = measure.definition.trec_eval
    return names.at(value, measure.cutoff) if names and names.at and measure.cutoff else value


def _compare(unit: str, measure: Measure, ours: float, theirs: float) -> None:
    if not abs(ours - theirs) <= TOLERANCE:
        raise StageError("evaluate", unit, f"{measure} is {ours!r} here and {theirs!r} in trec_eval")
