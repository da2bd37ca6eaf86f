"""A table of the figures in MTEB's result files, with the figures of our benchmark if one is given."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.interop.mteb_import import MtebResult, known_tasks, read_mteb_results
from r2med_ray.interop.mteb_tasks import R2MED_TASKS
from r2med_ray.reporting.columns import Column, text_table
from r2med_ray.reporting.formats import points
from r2med_ray.reporting.mteb_results import mteb_task_name
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.write import load_results

OTHER_TASKS = " Tasks that are not R2MED's are known by `--results FOLDER`, what a run here wrote, e.g. results/demo"


def import_table(place: Path, names: Sequence[str], results: Path | None, measure: str) -> str:
    """Return the table of `r2med mteb import`.

    Args:
        place: MTEB's file or folder.
        names: names of tasks, in our spelling or MTEB's. If there are none, all tasks are listed.
        results: a folder that a run of ours wrote. None lists MTEB's figures only.
        measure: the measure that is compared, e.g. `nDCG@10`.

    Raises:
        ConfigError: the measure or a task is unknown, or there is nothing to read.
        DataError: a file can't be compared; see `read_mteb_results`.
    """
    record = load_results(results) if results else None
    tasks = {mteb_task_name(task.name, task.suite): task.name for task in record.tasks} if record else R2MED_TASKS
    theirs = read_mteb_results(place, known_tasks(names, tasks), hint="" if record else OTHER_TASKS)
    return mteb_table(theirs, Measure.parse(measure), record)


def mteb_table(theirs: Sequence[MtebResult], measure: Measure, record: BenchmarkRecord | None = None) -> str:
    """Return a table with one row per system and model and one column per task of MTEB's files, and warnings.

    The mean is over all those tasks. A row that lacks one of them has no mean. A warning names files and tasks that
    can't be compared.
    """
    tasks = list(dict.fromkeys(result.task for result in sorted(theirs, key=lambda result: result.task)))
    rows = [("ours", name, scores) for name, scores in (_ours(record, tasks, measure) if record else {}).items()]
    rows += [("MTEB", name, scores) for name, scores in _theirs(theirs, measure).items()]
    columns = [
        Column(title="From", values=[origin for origin, _, _ in rows], is_number=False),
        Column(title="System", values=[name for _, name, _ in rows], is_number=False),
        *(_points(task, [scores.get(task) for _, _, scores in rows]) for task in tasks),
        _points("Mean", [_mean(scores, tasks) for _, _, scores in rows]),
    ]
    warnings = "".join(f"warning: {warning}\n" for warning in _warnings(theirs, record))
    return f"{measure} on a scale of 0–100\n\n{text_table(columns)}{warnings}"


def _points(title: str, values: Sequence[float | None]) -> Column:
    return Column(title=title, values=values, write=points)


def _mean(scores: Mapping[str, float], tasks: Sequence[str]) -> float | None:
    return sum(scores[task] for task in tasks) / len(tasks) if scores.keys() >= set(tasks) else None


def _ours(record: BenchmarkRecord, tasks: Sequence[str], measure: Measure) -> dict[str, dict[str, float]]:
    qrels = {task.name: task.qrels for task in record.tasks}
    return {
        system.name: {
            task: evaluate(result.run, qrels[task], [measure]).means[str(measure)]
            for task, result in record.results_of(system.name).items()
            if task in tasks
        }
        for system in record.systems
    }


def _theirs(results: Sequence[MtebResult], measure: Measure) -> dict[str, dict[str, float]]:
    """Return model → task → value. A model with several revisions gets one entry per revision."""
    revisions: dict[str, set[str]] = {}
    for result in results:
        revisions.setdefault(result.model, set()).add(result.revision)
    rows: dict[str, dict[str, float]] = {}
    for result in results:
        several = len(revisions[result.model]) > 1
        scores = rows.setdefault(f"{result.model}@{result.revision[:12]}" if several else result.model, {})
        if str(measure) in result.scores:
            scores[result.task] = result.scores[str(measure)]
    return rows


def _warnings(theirs: Sequence[MtebResult], record: BenchmarkRecord | None) -> Iterable[str]:
    if record is None:
        return
    ours = {task.name: task.revision for task in record.tasks}
    other = [result for result in theirs if result.dataset_revision != ours[result.task]]
    if other:
        first = other[0]
        yield (
            f"{len(other)} of {len(theirs)} files are of another revision of their task, e.g. {first.path}: "
            f"{first.task} at {first.dataset_revision}, ours at {ours[first.task]}"
        )
    if absent := sorted(ours.keys() - {result.task for result in theirs}):
        yield f"{len(absent)} of {len(ours)} tasks of ours are in none of the files: {', '.join(absent)}"
