"""Reads a report back, so that it can be rendered again or set against published figures."""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from r2med_ray.artifacts import Json
from r2med_ray.errors import DataError
from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.evaluation.trec import read_qrels, read_run
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.write import MANIFEST, PER_QUERY, RECORD, is_report
from r2med_ray.types import QueryId, Run


def load_results(output: Path) -> BenchmarkRecord:
    """Return the record that a report was written from; queries that a run leaves empty are left out of it.

    Raises:
        DataError: the folder is no report, or a file of it is missing or damaged.
    """
    if not is_report(output):
        raise DataError(f"{output} is no report: expected a {MANIFEST} that r2med wrote")
    try:
        values = json.loads((output / MANIFEST).read_bytes())
        for task in values["tasks"]:
            task["qrels"] = read_qrels(output / task["qrels_file"])
        measured = _per_query(output / PER_QUERY)
        for result in values["results"]:
            result["run"] = _run(output / result["run_file"], tag=result["run"]["tag"])
            result["evaluation"] = _evaluation(result["evaluation"], measured[result["system"], result["task"]])
        return RECORD.validate_python(values)
    except (OSError, KeyError, pa.ArrowInvalid, ValidationError) as error:
        raise DataError(f"report {output} is not whole: {error!r}") from error


class _Measured:
    """The rows of one system and task."""

    def __init__(self) -> None:
        self.per_query: dict[QueryId, dict[str, float]] = {}
        self.num_positives: dict[QueryId, int] = {}


def _per_query(path: Path) -> Mapping[tuple[str, str], _Measured]:
    measured: dict[tuple[str, str], _Measured] = defaultdict(_Measured)
    for row in pq.read_table(path).to_pylist():
        found = measured[row["system"], row["task"]]
        found.per_query.setdefault(row["query_id"], {})[row["measure"]] = row["value"]
        if row["num_positives"]:
            found.num_positives[row["query_id"]] = row["num_positives"]
    return dict(measured)


def _evaluation(counted: Mapping[str, Json], measured: _Measured) -> Evaluation:
    return Evaluation(
        means=counted["means"],
        per_query=measured.per_query,
        num_positives=measured.num_positives,
        num_unanswered=counted["num_unanswered"],
        num_unjudged=counted["num_unjudged"],
    )


def _run(path: Path, tag: str) -> Run:
    """Return a run; one that found nothing at all is an empty file, which is no TREC run to others."""
    return read_run(path) if path.stat().st_size else Run(tag=tag, rankings={})
