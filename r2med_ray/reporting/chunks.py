"""Writes what the page shows of single queries into files beside it, which it loads when they are asked for.

    queries/<task>.js            query ids, the beginnings of their texts, and each system's value of each measure
    queries/<task>/<number>.js   a block of queries: texts, passages, each system's first documents

A file is one call of a function of the page with one JSON value in ASCII, so that a page that is opened from a disk
may load it, and no text can end it or run. Texts are cut at the lengths below; the page says how much is cut.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from r2med_ray.reporting.file_names import file_names
from r2med_ray.reporting.query_details import Pool, query_details
from r2med_ray.reporting.record import BenchmarkRecord, TaskRecord
from r2med_ray.reporting.texts import Question, TaskTexts
from r2med_ray.storage.keys import Json
from r2med_ray.types import QueryId

QUERIES = "queries"
"""The folder of these files."""

BEGINNING = 160
"""Characters of a query's text that lists of queries show."""

BLOCK = 1_000_000
"""Characters of texts after which a block ends."""


def task_scripts(record: BenchmarkRecord) -> dict[str, str]:
    """Return task → the path of its file, relative to the page, for the tasks that have judgements."""
    names = file_names(task.name for task in record.tasks)
    return {task.name: f"{QUERIES}/{names[task.name]}.js" for task in record.tasks if task.qrels}


def write_chunks(record: BenchmarkRecord, folder: Path) -> None:
    """Write the files of all tasks with judgements into the folder of a report."""
    scripts = task_scripts(record)
    for task in record.tasks:
        if task.qrels:
            _write_task(record, task, folder / scripts[task.name])


def _write_task(record: BenchmarkRecord, task: TaskRecord, path: Path) -> None:
    ids = _query_ids(record, task)
    questions = task.texts.questions if task.texts else {}
    starts: list[int] = []
    for number, (start, block) in enumerate(_blocks(record, task, ids) if task.texts else ()):
        starts.append(start)
        _write(path.with_suffix("") / f"{number}.js", "block", {"task": task.name, "number": number, **block})
    nothing = Question(text="")
    known = ((query_id, questions.get(query_id, nothing)) for query_id in ids)
    queries = [[query_id, question.text[:BEGINNING], question.body_system] for query_id, question in known]
    _write(
        path, "task", {"task": task.name, "queries": queries, "blocks": starts, "values": _values(record, task, ids)}
    )


def _query_ids(record: BenchmarkRecord, task: TaskRecord) -> list[QueryId]:
    """Return the queries of a task that its means are over, in the order of the collection if that is known."""
    measured = {
        query_id: None
        for result in record.results
        if result.task == task.name
        for query_id in result.evaluation.num_positives
    }
    known = task.texts.questions if task.texts else measured
    return [query_id for query_id in known if query_id in measured]


def _values(
    record: BenchmarkRecord, task: TaskRecord, ids: Sequence[QueryId]
) -> dict[str, dict[int, list[float | None]]]:
    """Return measure → position of a system in the record → one value per query, None for one without a value."""
    found: dict[str, dict[int, list[float | None]]] = {measure: {} for measure in record.measures}
    for position, system in enumerate(record.systems):
        result = record.results_of(system.name).get(task.name)
        if result is not None:
            for measure, of_measure in found.items():
                values = result.evaluation.values(measure)
                of_measure[position] = [
                    None if (value := values.get(query_id)) is None else round(value, 6) for query_id in ids
                ]
    return found


def _blocks(
    record: BenchmarkRecord, task: TaskRecord, ids: Sequence[QueryId]
) -> Iterator[tuple[int, Mapping[str, Json]]]:
    """Yield the position of the first query of each block, and the block."""
    texts = task.texts
    assert isinstance(texts, TaskTexts)
    runs = {
        position: result.run
        for position, system in enumerate(record.systems)
        if (result := record.results_of(system.name).get(task.name)) is not None
    }
    names = [system.name for system in record.systems]
    start, pool, queries = 0, Pool(texts.passages), list[Json]()
    for number, query_id in enumerate(ids):
        queries.append(query_details(query_id, task.qrels[query_id], texts, runs, names, pool))
        if pool.size >= BLOCK or number == len(ids) - 1:
            yield start, {"texts": pool.texts, "documents": pool.documents, "queries": queries}
            start, pool, queries = number + 1, Pool(texts.passages), []


def _write(path: Path, function: str, value: Mapping[str, Json]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    path.write_text(f"r2med.{function}({text});\n", encoding="ascii", newline="\n")
