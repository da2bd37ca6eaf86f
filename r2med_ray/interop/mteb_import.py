"""Reads MTEB's result files: one file, or a folder such as github.com/embeddings-benchmark/results.

The files of mteb 1.11 to 2.26 have `scores` by split. The files of earlier versions have the splits at the top level.
Only scores of retrieval are read, for one split with one subset.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.published import PublishedScore
from r2med_ray.interop.mteb_tasks import R2MED_TASKS
from r2med_ray.reporting.mteb_results import MEASURE_OF_KEY, MODEL_META
from r2med_ray.settings.registry import nearest

_KEY = re.compile(r"([a-z_]+?)(?:_at_|@)([1-9]\d*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MtebResult:
    """The content of one file: the scores of one model on one task."""

    path: Path
    model: str
    revision: str
    """The model's revision; empty if the file is not in a folder that mteb made."""

    task: str
    """Our name of the task."""

    dataset_revision: str
    mteb_version: str | None
    scores: Mapping[str, float]
    """Measure in our spelling (`nDCG@10`) → value on the scale 0 to 1."""

    def published(self) -> tuple[PublishedScore, ...]:
        """Return the scores as rows of the table of published scores."""
        source = f"{self.path.name}, mteb {self.mteb_version or 'not stated'}, model revision {self.revision or '?'}"
        return tuple(
            PublishedScore(
                family="mteb", retriever=self.model, task=self.task, measure=name, value=value, source=source
            )
            for name, value in self.scores.items()
        )


def read_mteb_results(
    place: Path, tasks: Mapping[str, str] = R2MED_TASKS, *, split: str = "test", hint: str = ""
) -> tuple[MtebResult, ...]:
    """Read a file, or every file in a folder whose name is that of one of the tasks.

    Args:
        place: a file, or a folder with `<model>/<revision>/<task>.json` anywhere below it.
        tasks: MTEB's name → our name. Files of other tasks are not read.
        split: the split whose scores are read.
        hint: a text that is added to the error if there are only results of other tasks.

    Returns:
        The results, sorted by model, revision and task.

    Raises:
        ConfigError: there is nothing to read.
        DataError: a file is no result, is of another task than its name says, has scores that can't be compared, or
            repeats another file's model, revision and task.
    """
    if place.is_dir():
        paths = [path for name in tasks for path in place.rglob(f"{name}.json")]
        if not paths:
            others = sorted({path.name for path in place.rglob("*.json")} - {MODEL_META})
            there = f"; there are {', '.join(others[:3])}{', ...' if len(others) > 3 else ''}" if others else ""
            raise ConfigError(f"{place}: expected a file like {next(iter(tasks))}.json{there}.{hint}")
    elif place.is_file():
        paths = [place]
    else:
        raise ConfigError(f"{place}: no such file or folder")
    found: dict[tuple[str, str, str], MtebResult] = {}
    for path in paths:
        expected = {path.stem: tasks[path.stem]} if place.is_dir() else tasks
        result = _read(path, expected, split, hint)
        first = found.setdefault((result.model, result.revision, result.task), result)
        if first is not result:
            raise DataError(f"{path}: {first.path} has {result.model!r} on {result.task} too; keep one of them")
    return tuple(found[key] for key in sorted(found))


def measure_of(key: str) -> Measure | None:
    """Return the measure of a key, e.g. `ndcg_at_10` or `NDCG@10`; None for any other key, e.g. `main_score`."""
    match = _KEY.fullmatch(key)
    name = MEASURE_OF_KEY.get(match[1].lower()) if match else None
    return Measure(name, int(match[2])) if match and name else None


def _read(path: Path, tasks: Mapping[str, str], split: str, hint: str) -> MtebResult:
    values = _object(path)
    task = values.get("task_name", values.get("mteb_dataset_name"))
    if not isinstance(task, str):
        raise DataError(f"{path}: no result of mteb; expected `task_name` (or `mteb_dataset_name` before mteb 1.11)")
    if task not in tasks:
        raise DataError(
            f"{path}: it is a result of task {task!r}; expected {' or '.join(tasks)}.{nearest(task, tasks)}{hint}"
        )
    model, revision = _model(path)
    return MtebResult(
        path=path,
        model=model,
        revision=revision,
        task=tasks[task],
        dataset_revision=str(values.get("dataset_revision", "not stated")),
        mteb_version=values.get("mteb_version"),
        scores=dict(_scores(path, _entry(path, values, split))),
    )


def _object(path: Path) -> Mapping[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise DataError(f"{path}: expected a JSON object, got {type(values).__name__}")
    return values


def _entry(path: Path, values: Mapping[str, Any], split: str) -> Mapping[str, Any]:
    """Return the scores of the only subset of a split."""
    splits = values.get("scores", values)
    if not isinstance(splits, dict):
        raise DataError(f"{path}: expected `scores` by split, got {type(splits).__name__}")
    entries = splits.get(split)
    entries = entries if isinstance(entries, list) else [entries]
    if len(entries) != 1 or not isinstance(entries[0], dict):
        raise DataError(f"{path}: expected one subset in the split {split!r}; it has {', '.join(map(str, splits))}")
    entry: Mapping[str, Any] = entries[0]
    return entry


def _scores(path: Path, entry: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    found = False
    for key, value in entry.items():
        measure = measure_of(key)
        if measure is None:
            continue
        found = True
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise DataError(f"{path}: {key} is {value!r}; expected a number from 0 to 1")
        yield str(measure), float(value)
    if not found:
        raise DataError(f"{path}: no retrieval measures, such as ndcg_at_10")


def _model(path: Path) -> tuple[str, str]:
    """Return the model's name and revision, from `model_meta.json` in the same folder or from the folders' names."""
    meta = path.with_name(MODEL_META)
    if meta.is_file():
        values = _object(meta)
        if not isinstance(values.get("name"), str):
            raise DataError(f"{meta}: expected the model's `name`, got {values.get('name')!r}")
        return values["name"], str(values.get("revision") or "")
    folder = path.parent
    if "__" in folder.parent.name:
        return folder.parent.name.replace("__", "/", 1), folder.name
    return path.stem, ""


def known_tasks(names: Sequence[str], tasks: Mapping[str, str]) -> dict[str, str]:
    """Return the tasks that are named, in either spelling; all tasks if no name is given.

    Raises:
        ConfigError: a name is not the name of a task. The message gives the nearest name.
    """
    spellings = {spelling: mteb for mteb, ours in tasks.items() for spelling in (mteb, ours)}
    for name in names:
        if name not in spellings:
            raise ConfigError(f"unknown task {name!r}.{nearest(name, spellings)} Known: {', '.join(tasks.values())}")
    return {mteb: ours for mteb, ours in tasks.items() if not names or {mteb, ours} & set(names)}
