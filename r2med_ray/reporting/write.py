"""Writes a report into a folder, and reads it back so that it can be made again.

    index.html  leaderboard.md  leaderboard.csv       for people, measures on a scale of 0 to 100
    leakage.csv                                       if texts were generated: which hold words of judged passages
    manifest.json                                     the record: configuration, revisions, counts, timings, versions
    per_query.parquet                                 system, task, query_id, num_positives, measure, value (0 to 1)
    runs/<system>/<task>.trec  qrels/<task>.trec      what trec_eval reads
    mteb/<system>/<task>.json                         what MTEB reads

The same results give the same bytes of run files and leaderboards. The manifest, the page and the `evaluation_time`
of MTEB's files say when a benchmark ran and how long it took.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from r2med_ray.errors import DataError
from r2med_ray.evaluation.trec import read_qrels, read_run, write_qrels, write_run
from r2med_ray.reporting.file_names import file_names
from r2med_ray.reporting.hard_negatives import ConditionFigures
from r2med_ray.reporting.leak_tables import leak_csv
from r2med_ray.reporting.mteb_results import mteb_result
from r2med_ray.reporting.output_folder import FORMAT, MANIFEST, PER_QUERY, is_report
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.report_places import local_copy, replacing_at, shown_place
from r2med_ray.reporting.scrubbing import without_secrets
from r2med_ray.reporting.summary import Summary
from r2med_ray.reporting.tables import leaderboard_csv, leaderboard_markdown
from r2med_ray.storage.keys import Json
from r2med_ray.types import Run

_RECORD: TypeAdapter[BenchmarkRecord] = TypeAdapter(BenchmarkRecord)
_HARD_NEGATIVES: TypeAdapter[tuple[ConditionFigures, ...]] = TypeAdapter(tuple[ConditionFigures, ...])
_IN_OTHER_FILES: dict[str, Any] = {
    "tasks": {"__all__": {"qrels"}},
    "results": {"__all__": {"run": {"rankings"}, "evaluation": {"per_query", "num_positives"}}},
}
_PER_QUERY_SCHEMA = pa.schema(
    {
        "system": pa.string(),
        "task": pa.string(),
        "query_id": pa.string(),
        "num_positives": pa.int32(),
        "measure": pa.string(),
        "value": pa.float64(),
    }
)


def write_report(summary: Summary, output: Path) -> Path:
    """Write a benchmark into a local folder as `write_report_to` does, and return its absolute path."""
    output = output.expanduser().resolve()
    write_report_to(summary, output)
    return output


def write_report_to(summary: Summary, output: str | Path) -> str:
    """Write a benchmark and its leaderboard to a folder or a URI, and return what `shown_place` says of it.

    An earlier report of the same benchmark is replaced.

    Raises:
        ConfigError: something else is there; see `report_places.require_replaceable_at`.
        DataError: an id can't be written into a TREC file.
        StoreError: the URI can't be written to.
    """
    record = summary.record
    with replacing_at(output, record.name) as folder:
        _write_results(summary, folder)
        pq.write_table(_per_query_table(record), folder / PER_QUERY, compression="zstd")
        _write_text(folder / "leaderboard.md", leaderboard_markdown(summary))
        _write_text(folder / "leaderboard.csv", leaderboard_csv(summary))
        _write_text(folder / "index.html", render_page(summary))
        if leaks := leak_csv(record):
            _write_text(folder / "leakage.csv", leaks)
    return shown_place(output)


def load_results(output: str | Path) -> BenchmarkRecord:
    """Return the record that a report was written from, without keys and passwords.

    Its runs lack the queries that have no documents.

    Args:
        output: a folder or a URI.

    Raises:
        DataError: the folder is not a report, or one of its files is missing or damaged.
        ConfigError: the URI can't be reached.
    """
    with local_copy(output) as folder:
        return _load(folder)


def _load(output: Path) -> BenchmarkRecord:
    if not is_report(output):
        raise DataError(f"{output} is no report: expected a {MANIFEST} that r2med wrote")
    try:
        values = json.loads((output / MANIFEST).read_bytes())
        measured = _per_query_values(output / PER_QUERY)
        for task in values["tasks"]:
            task["qrels"] = read_qrels(output / task["qrels_file"]) if "qrels_file" in task else {}
        for result in values["results"]:
            result["run"] = _read_run(output / result["run_file"], tag=result["run"]["tag"])
            result["evaluation"] |= measured[result["system"], result["task"]]
        return without_secrets(_RECORD.validate_python(values))
    except (OSError, KeyError, pa.ArrowInvalid, ValidationError) as error:
        raise DataError(f"report {output} is not whole: {type(error).__name__}: {error}") from error


def _write_results(summary: Summary, folder: Path) -> None:
    """Write runs, qrels and MTEB's files, and the manifest that says which file belongs to which task and system."""
    record = summary.record
    tasks = {task.name: task for task in record.tasks}
    task_files = file_names(tasks)
    system_files = file_names(system.name for system in record.systems)
    manifest = _manifest(record)
    if summary.hard_negatives:
        manifest["hard_negatives"] = _HARD_NEGATIVES.dump_python(summary.hard_negatives, mode="json")
    for task, entry in zip(record.tasks, manifest["tasks"], strict=True):
        if task.qrels:
            entry["qrels_file"] = f"qrels/{task_files[task.name]}.trec"
            write_qrels(folder / entry["qrels_file"], task.qrels)
    for result, entry in zip(record.results, manifest["results"], strict=True):
        name = f"{system_files[result.system]}/{task_files[result.task]}"
        entry["run_file"], entry["mteb_file"] = f"runs/{name}.trec", f"mteb/{name}.json"
        write_run(folder / entry["run_file"], result.run)
        _write_text(folder / entry["mteb_file"], _json(mteb_result(record, tasks[result.task], result)))
    _write_text(folder / MANIFEST, _json(manifest))


def _manifest(record: BenchmarkRecord) -> dict[str, Json]:
    """Return the record for the manifest.

    Parts that have files of their own are left out. Values that a reader would have to work out are added.
    """
    values = _RECORD.dump_python(record, mode="json", exclude=_IN_OTHER_FILES)
    for result, entry in zip(record.results, values["results"], strict=True):
        entry["evaluation"]["num_queries"] = result.evaluation.num_queries
        entry["evaluation"]["num_without_positives"] = result.evaluation.num_without_positives
    for stage, entry in zip(record.stages, values["stages"], strict=True):
        entry["documents_per_second"] = stage.documents_per_second
    return {"format": FORMAT, **values}


def _per_query_table(record: BenchmarkRecord) -> pa.Table:
    """Return one row per system, task, query and measure; `num_positives` is 0 if the query is not in the mean."""
    rows = [
        {
            "system": result.system,
            "task": result.task,
            "query_id": query_id,
            "num_positives": result.evaluation.num_positives.get(query_id, 0),
            "measure": measure,
            "value": value,
        }
        for result in record.results
        for query_id, values in result.evaluation.per_query.items()
        for measure, value in values.items()
    ]
    return pa.Table.from_pylist(rows, schema=_PER_QUERY_SCHEMA)


def _per_query_values(path: Path) -> Mapping[tuple[str, str], dict[str, Json]]:
    """Return (system, task) → the two fields of `Evaluation` that the table holds."""
    found: dict[tuple[str, str], dict[str, Json]] = {}
    for row in pq.ParquetFile(path).read().to_pylist():
        fields = found.setdefault((row["system"], row["task"]), {"per_query": {}, "num_positives": {}})
        fields["per_query"].setdefault(row["query_id"], {})[row["measure"]] = row["value"]
        if row["num_positives"]:
            fields["num_positives"][row["query_id"]] = row["num_positives"]
    return found


def _read_run(path: Path, tag: str) -> Run:
    """Return a run. An empty file is a run that found nothing; `read_run` would refuse it."""
    return read_run(path) if path.stat().st_size else Run(tag=tag, rankings={})


def _json(value: Json) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
