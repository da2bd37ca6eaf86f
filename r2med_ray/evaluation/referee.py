"""The second opinion: every value computed again by trec_eval, through pytrec_eval."""

from r2med_ray.errors import StageError
from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.evaluation.measures import Measure
from r2med_ray.types import Qrels, Run

TOLERANCE = 1e-9

_NAMES = {"nDCG": "ndcg", "AP": "map", "R": "recall", "P": "P", "RR": "recip_rank", "Success": "success"}
_CUT_NAMES = {**_NAMES, "nDCG": "ndcg_cut", "AP": "map_cut"}


def check_with_trec_eval(run: Run, qrels: Qrels, evaluation: Evaluation) -> None:
    """Require that trec_eval gives the same value for every query and measure, and the same means.

    trec_eval leaves out what the run doesn't answer, and knows no `RR@k`: the first is 0 by our rule, the second is
    RR where the first positive stands at rank k or above.

    Raises:
        StageError: a value differs by more than `TOLERANCE`; names the query, the measure and both values.
    """
    import pytrec_eval

    measures = [Measure.parse(name) for name in evaluation.means]
    scores = {
        query_id: {hit.doc_id: float(hit.score) for hit in ranking} for query_id, ranking in run.rankings.items()
    }
    grades = {
        query_id: {doc_id: int(grade) for doc_id, grade in judged.items()} for query_id, judged in qrels.items()
    }
    names = {_name(measure) for measure in measures}
    theirs = pytrec_eval.RelevanceEvaluator(grades, names).evaluate(scores)
    for measure in measures:
        values = {query_id: _value(theirs.get(query_id, {}), measure) for query_id in qrels}
        for query_id, value in values.items():
            _compare(f"query {query_id!r}", measure, evaluation.per_query[query_id][str(measure)], value)
        counted = [
            value for query_id, value in values.items() if any(grade > 0 for grade in qrels[query_id].values())
        ]
        _compare("the mean", measure, evaluation.means[str(measure)], sum(counted) / len(counted))


def _name(measure: Measure) -> str:
    if measure.cutoff is None or measure.name == "RR":
        return _NAMES[measure.name]
    return f"{_CUT_NAMES[measure.name]}.{measure.cutoff}"


def _value(theirs: dict[str, float], measure: Measure) -> float:
    value = theirs.get(_name(measure).replace(".", "_"), 0.0)
    is_cut = measure.name == "RR" and measure.cutoff is not None and value > 0
    return 0.0 if is_cut and round(1 / value) > (measure.cutoff or 0) else value


def _compare(unit: str, measure: Measure, ours: float, theirs: float) -> None:
    if not abs(ours - theirs) <= TOLERANCE:
        raise StageError("evaluate", unit, f"{measure} is {ours!r} here and {theirs!r} in trec_eval")
