"""Writes a report: a folder that is there whole or not at all, and from which the report can be made again.

    index.html  leaderboard.md  leaderboard.csv       for people, measures on a scale of 0 to 100
    manifest.json                                     the record: configuration, revisions, counts, timings, versions
    per_query.parquet                                 system, task, query_id, num_positives, measure, value (0 to 1)
    runs/<system>/<task>.trec  qrels/<task>.trec      what trec_eval reads
    mteb/<system>/<task>.json                         what MTEB reads

Run files and leaderboards are the same bytes for the same results. When a benchmark ran and how long it took stands
in the manifest, the page and the `evaluation_time` of MTEB's files.
"""

import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from r2med_ray.artifacts import Json
from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.trec import write_qrels, write_run
from r2med_ray.reporting.file_names import file_names
from r2med_ray.reporting.leaderboard import leaderboard_csv, leaderboard_markdown
from r2med_ray.reporting.mteb_results import mteb_result
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import summarise

FORMAT = "r2med_ray report 1"
"""Stands in the manifest of every report; a folder without it is somebody else's."""

MANIFEST = "manifest.json"
PER_QUERY = "per_query.parquet"
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
RECORD: TypeAdapter[BenchmarkRecord] = TypeAdapter(BenchmarkRecord)

_ENTRIES = {MANIFEST, PER_QUERY, "index.html", "leaderboard.md", "leaderboard.csv", "runs", "qrels", "mteb"}
_IN_OTHER_FILES: dict[str, Any] = {
    "tasks": {"__all__": {"qrels"}},
    "results": {"__all__": {"run": {"rankings"}, "evaluation": {"per_query", "num_positives"}}},
}


def write_report(record: BenchmarkRecord, output: Path) -> Path:
    """Write everything into `output`, in place of an earlier report, and return its absolute path.

    Raises:
        ConfigError: something else is there; see `require_replaceable`.
        DataError: an id can't stand in a TREC file.
    """
    output = output.expanduser().resolve()
    require_replaceable(output)
    fresh = output.with_name(f".{output.name}.{uuid.uuid4().hex}.partial")
    try:
        _write_files(record, fresh)
        _put_in_place(fresh, output)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return output


def require_replaceable(output: Path) -> None:
    """Check that a report may stand here: the place is free, an empty folder, or an earlier report and nothing else.

    Raises:
        ConfigError: names what is in the way.
    """
    if not output.exists():
        return
    if not output.is_dir():
        raise ConfigError(f"output {output}: expected a folder, this is a file")
    entries = {path.name for path in output.iterdir()}
    if entries and not is_report(output):
        raise ConfigError(f"output {output}: there are other files in it, e.g. {min(entries)!r}; name a new folder")
    if foreign := entries - _ENTRIES:
        raise ConfigError(f"output {output}: {min(foreign)!r} is no part of a report and would be lost; move it away")


def is_report(folder: Path) -> bool:
    """Tell whether `write_report` made this folder."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def _put_in_place(fresh: Path, output: Path) -> None:
    old = fresh.with_suffix(".old")
    if output.exists():
        output.rename(old)
    try:
        fresh.rename(output)
    except OSError:
        if old.exists():
            old.rename(output)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write_files(record: BenchmarkRecord, folder: Path) -> None:
    folder.mkdir(parents=True)
    summary = summarise(record)
    tasks = {task.name: task for task in record.tasks}
    task_files = file_names(tasks)
    system_files = file_names(system.name for system in record.systems)
    for task in record.tasks:
        write_qrels(folder / "qrels" / f"{task_files[task.name]}.trec", task.qrels)
    for result in record.results:
        system_file, task_file = system_files[result.system], task_files[result.task]
        write_run(folder / "runs" / system_file / f"{task_file}.trec", result.run)
        mteb = folder / "mteb" / system_file / f"{task_file}.json"
        mteb.parent.mkdir(parents=True, exist_ok=True)
        _write_text(mteb, _json(mteb_result(record, tasks[result.task], result)))
    pq.write_table(_per_query(record), folder / PER_QUERY, compression="zstd")
    _write_text(folder / MANIFEST, _json(_manifest(record, system_files, task_files)))
    _write_text(folder / "leaderboard.md", leaderboard_markdown(summary))
    _write_text(folder / "leaderboard.csv", leaderboard_csv(summary))
    _write_text(folder / "index.html", render_page(summary))


def _manifest(record: BenchmarkRecord, system_files: Mapping[str, str], task_files: Mapping[str, str]) -> Json:
    """Return the record without what has files of its own, and with what a reader would have to work out."""
    values = RECORD.dump_python(record, mode="json", exclude=_IN_OTHER_FILES)
    for task in values["tasks"]:
        task["qrels_file"] = f"qrels/{task_files[task['name']]}.trec"
    for result, entry in zip(record.results, values["results"], strict=True):
        entry["run_file"] = f"runs/{system_files[result.system]}/{task_files[result.task]}.trec"
        entry["evaluation"] |= {
            "num_queries": result.evaluation.num_queries,
            "num_without_positives": result.evaluation.num_without_positives,
        }
    for stage, entry in zip(record.stages, values["stages"], strict=True):
        entry["documents_per_second"] = stage.documents_per_second
    return {"format": FORMAT, **values}


def _per_query(record: BenchmarkRecord) -> pa.Table:
    """Return one row per system, task, query and measure; `num_positives` is 0 where a query is not in the mean."""
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


def _json(value: Json) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
