"""Writes a report into a folder, and reads it back so that it can be made again.

    index.html  leaderboard.md  leaderboard.csv       for people, measures on a scale of 0 to 100
    leakage.csv                                       if texts were generated: which hold words of judged passages
    manifest.json                                     the record: configuration, revisions, counts, timings, versions
    per_query.parquet                                 system, task, query_id, num_positives, measure, value (0 to 1)
    queries/...                                       what the page loads of single queries, see `chunks`
    runs/<system>/<task>.trec  qrels/<task>.trec      what trec_eval reads
    mteb/<system>/<task>.json                         what MTEB reads

The same results give the same bytes of run files and leaderboards. The manifest, the page and the `evaluation_time`
of MTEB's files say when a benchmark ran and how long it took.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from r2med_ray.errors import DataError
from r2med_ray.evaluation.significance import Comparison
from r2med_ray.evaluation.trec import read_qrels, read_run, write_qrels, write_run
from r2med_ray.reporting.chunks import QUERIES, write_chunks
from r2med_ray.reporting.file_names import file_names
from r2med_ray.reporting.hard_negatives import ConditionFigures
from r2med_ray.reporting.leak_tables import leak_csv
from r2med_ray.reporting.mteb_results import mteb_result
from r2med_ray.reporting.output_folder import FORMAT, MANIFEST, PER_QUERY, is_report
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.per_query import per_query_table, read_per_query
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.report_places import local_copy, replacing_at, shown_place
from r2med_ray.reporting.scrubbing import without_secrets
from r2med_ray.reporting.summary import Summary, summarise
from r2med_ray.reporting.tables import leaderboard_csv, leaderboard_markdown
from r2med_ray.settings.hard_negatives import is_condition
from r2med_ray.storage.keys import Json
from r2med_ray.types import Run

_RECORD: TypeAdapter[BenchmarkRecord] = TypeAdapter(BenchmarkRecord)
_HARD_NEGATIVES: TypeAdapter[tuple[ConditionFigures, ...]] = TypeAdapter(tuple[ConditionFigures, ...])
_COMPARED: TypeAdapter[dict[str, Comparison]] = TypeAdapter(dict[str, Comparison])
_IN_OTHER_FILES: dict[str, Any] = {
    "tasks": {"__all__": {"qrels", "texts"}},
    "results": {"__all__": {"run": {"rankings"}, "evaluation": {"per_query", "num_positives"}}},
}
_TAKEN_OVER = ("runs", "qrels", "mteb", QUERIES)


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
        pq.write_table(per_query_table(record), folder / PER_QUERY, compression="zstd")
        write_chunks(record, folder)
        _write_for_people(summary, folder)
    return shown_place(output)


def rewrite_report(output: str | Path) -> str:
    """Write manifest, leaderboards and page of a report again, out of the report itself.

    What a run alone can make, its run files and the texts of its queries, is taken over as it is.

    Returns:
        What `shown_place` says of the folder or URI.

    Raises:
        DataError: see `load_results`.
        ConfigError, StoreError: see `write_report_to`.
    """
    with local_copy(output) as kept:
        summary = summarise(_load(kept, all_runs=False))
        with replacing_at(output, summary.record.name) as folder:
            for name in _TAKEN_OVER:
                if (kept / name).is_dir():
                    shutil.copytree(kept / name, folder / name)
            shutil.copyfile(kept / PER_QUERY, folder / PER_QUERY)
            if not (kept / QUERIES).is_dir():  # a report from before they were written
                write_chunks(summary.record, folder)
            _write_text(folder / MANIFEST, _json(_manifest(summary)))
            _write_for_people(summary, folder)
    return shown_place(output)


def _write_for_people(summary: Summary, folder: Path) -> None:
    _write_text(folder / "leaderboard.md", leaderboard_markdown(summary))
    _write_text(folder / "leaderboard.csv", leaderboard_csv(summary))
    _write_text(folder / "index.html", render_page(summary))
    if leaks := leak_csv(summary.record):
        _write_text(folder / "leakage.csv", leaks)


def load_results(output: str | Path, *, all_runs: bool = True) -> BenchmarkRecord:
    """Return the record that a report was written from, without keys and passwords.

    Its runs lack the queries that have no documents.

    Args:
        output: a folder or a URI.
        all_runs: whether all runs are read. Without it, the record has the rankings only of results whose warnings or
            measures of hard negatives are worked out from them, which is enough for a leaderboard.

    Raises:
        DataError: the folder is not a report, or one of its files is missing or damaged.
        ConfigError: the URI can't be reached.
    """
    with local_copy(output) as folder:
        return _load(folder, all_runs=all_runs)


def _load(output: Path, *, all_runs: bool) -> BenchmarkRecord:
    if not is_report(output):
        raise DataError(f"{output} is no report: expected a {MANIFEST} that r2med wrote")
    try:
        values = json.loads((output / MANIFEST).read_bytes())
        measured = read_per_query(output / PER_QUERY)
        for task in values["tasks"]:
            task["qrels"] = read_qrels(output / task["qrels_file"]) if "qrels_file" in task else {}
        for result in values["results"]:
            path, tag = output / result["run_file"], result["run"]["tag"]
            is_read = all_runs or result.get("found_nothing") or is_condition(result["task"])
            result["run"] = _read_run(path, tag) if is_read else Run(tag=tag, rankings={})
            result["evaluation"] |= measured[result["system"], result["task"]]
        return without_secrets(_RECORD.validate_python(values))
    except (OSError, KeyError, pa.ArrowInvalid, ValidationError) as error:
        raise DataError(f"report {output} is not whole: {type(error).__name__}: {error}") from error


def _write_results(summary: Summary, folder: Path) -> None:
    """Write runs, qrels and MTEB's files, and the manifest that says which file belongs to which task and system."""
    record = summary.record
    tasks = {task.name: task for task in record.tasks}
    manifest = _manifest(summary)
    for task, entry in zip(record.tasks, manifest["tasks"], strict=True):
        if task.qrels:
            write_qrels(folder / entry["qrels_file"], task.qrels)
    for result, entry in zip(record.results, manifest["results"], strict=True):
        write_run(folder / entry["run_file"], result.run)
        _write_text(folder / entry["mteb_file"], _json(mteb_result(record, tasks[result.task], result)))
    _write_text(folder / MANIFEST, _json(manifest))


def _manifest(summary: Summary) -> dict[str, Json]:
    """Return the record for the manifest.

    Parts that have files of their own are left out, and the files are named. Values that a reader would have to work
    out are added.
    """
    record = summary.record
    task_files = file_names(task.name for task in record.tasks)
    system_files = file_names(system.name for system in record.systems)
    values = _RECORD.dump_python(record, mode="json", exclude=_IN_OTHER_FILES)
    for task, entry in zip(record.tasks, values["tasks"], strict=True):
        if task.qrels:
            entry["qrels_file"] = f"qrels/{task_files[task.name]}.trec"
    for result, entry in zip(record.results, values["results"], strict=True):
        entry["evaluation"]["num_queries"] = result.evaluation.num_queries
        entry["evaluation"]["num_without_positives"] = result.evaluation.num_without_positives
        name = f"{system_files[result.system]}/{task_files[result.task]}"
        entry["run_file"], entry["mteb_file"] = f"runs/{name}.trec", f"mteb/{name}.json"
    for stage, entry in zip(record.stages, values["stages"], strict=True):
        entry["documents_per_second"] = stage.documents_per_second
    compared = {row.system.name: row.comparison for row in summary.rows if row.comparison}
    values["compared"] = _COMPARED.dump_python(compared, mode="json")
    if summary.hard_negatives:
        values["hard_negatives"] = _HARD_NEGATIVES.dump_python(summary.hard_negatives, mode="json")
    return {"format": FORMAT, **values}


def _read_run(path: Path, tag: str) -> Run:
    """Return a run. An empty file is a run that found nothing; `read_run` would refuse it."""
    return read_run(path) if path.stat().st_size else Run(tag=tag, rankings={})


def _json(value: Json) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
