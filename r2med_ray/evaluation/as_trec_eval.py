"""Figures as trec_eval prints them: out of files as it reads them, under its names, averaged over its queries.

trec_eval (github.com/usnistgov/trec_eval; trec_eval.c, meas_avg.c) averages over the queries that the run and the
qrels both have, and with `-c` over all queries of the qrels. A query without a positive judgement counts 0. Our own
mean leaves such a query out and counts an unanswered query as 0, as the right comparison of systems does.

Its files (get_trec_results.c, get_qrels.c) may have further fields after the tag of a run. Since its pull request 23
they may have comments: in a run a line whose first character that is not white space is `#`, in qrels a line that
begins with `#`. Any other `#` is part of an id. Versions without that change (it was taken back once, see its issue
46) read all these lines as data, and so do we unless asked.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.evaluate import values_as_trec_eval
from r2med_ray.evaluation.measures import Measure
from r2med_ray.types import Qrels, QueryId


@dataclass(frozen=True, slots=True, kw_only=True)
class TrecEvalFigures:
    """The figures of one run."""

    means: Mapping[str, float]
    """trec_eval's name of a measure → mean over the queries of `per_query`."""

    per_query: Mapping[QueryId, Mapping[str, float]]
    """query_id → trec_eval's name of a measure → value, for every query behind the means, sorted by id."""

    def lines(self, *, per_query: bool) -> Iterator[str]:
        """Yield what trec_eval prints: with `-q` the values of each query, and then the means."""
        for query_id, values in self.per_query.items() if per_query else ():
            yield from (f"{name:<22}\t{query_id}\t{value:6.4f}" for name, value in values.items())
        yield f"{'num_q':<22}\tall\t{len(self.per_query)}"
        yield from (f"{name:<22}\tall\t{value:6.4f}" for name, value in self.means.items())


def evaluate_as_trec_eval(
    path: Path, qrels: Qrels, measures: Sequence[Measure], *, complete: bool = False
) -> TrecEvalFigures:
    """Measure a run file as trec_eval does.

    Args:
        path: the run; comments and further fields are passed over and counted in the log.
        qrels: the judgements.
        measures: measures that trec_eval has.
        complete: trec_eval's `-c`: every query of the qrels is in the mean, answered or not.

    Raises:
        ConfigError: trec_eval doesn't have a measure.
        DataError: run and qrels have no query in common, with `-c` too (trec_eval exits with 7), or a line of the
            file is malformed.
    """
    names = {str(measure): trec_eval_title(measure) for measure in measures}
    values, answered = values_as_trec_eval(path, qrels, measures)
    behind = sorted(qrels if complete else qrels.keys() & answered)
    per_query = {query_id: {title: values[query_id][name] for name, title in names.items()} for query_id in behind}
    return TrecEvalFigures(
        means={
            title: math.fsum(of_query[title] for of_query in per_query.values()) / len(behind)
            for title in names.values()
        },
        per_query=per_query,
    )


def trec_eval_title(measure: Measure) -> str:
    """Return the name under which trec_eval prints a measure, e.g. `ndcg_cut_10`.

    Raises:
        ConfigError: trec_eval doesn't have the measure.
    """
    names = measure.definition.trec_eval
    if measure.trec_eval_name is None or names is None or (measure.cutoff is not None and names.cut is None):
        raise ConfigError(f"trec_eval has no {measure}; leave the measure out, or leave out --as trec_eval")
    return measure.trec_eval_name.replace(".", "_")
