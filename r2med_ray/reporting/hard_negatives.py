"""The figures of hard negatives: one row per task, system and condition, worked out from the runs of a record."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from r2med_ray.evaluation.hard_negatives.comp646 import comp646_figures
from r2med_ray.evaluation.hard_negatives.contrasts import CHANCE, contrast_accuracy
from r2med_ray.evaluation.hard_negatives.differences import differences
from r2med_ray.evaluation.hard_negatives.measures import (
    FirstRanks,
    first_ranks,
    foreign_measures,
    hard_negative_measures,
)
from r2med_ray.evaluation.hard_negatives.pairs import pair_accuracy
from r2med_ray.evaluation.hard_negatives.placed import placed
from r2med_ray.evaluation.significance import Comparison
from r2med_ray.reporting.record import BenchmarkRecord, ResultRecord, TaskRecord
from r2med_ray.settings.hard_negatives import HardNegativesConfig, with_condition
from r2med_ray.types import Contrast, HardNegatives, Qrels, positives_of, without_controls

BASE, PAIRS = "base", "pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFigures:
    """What a system did with the hard negatives of one kind, as if a query had no others."""

    values: Mapping[str, float]
    """Measure → value."""

    first_ranks: FirstRanks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionFigures:
    """What a system did in one condition of a task. Shares are from 0 to 1."""

    task: str
    """The task that the condition was made from."""

    system: str
    condition: str
    score: float
    """The main measure."""

    difference: Comparison | None = None
    """The main measure minus its value in the condition `base`; None for `base` and `pairs`."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Measure → value; see `evaluation.hard_negatives`."""

    first_ranks: FirstRanks | None = None
    by_kind: Mapping[str, KindFigures] = field(default_factory=dict)
    """Kind of hard negative → the figures that tell kinds apart; nothing for the condition `base`."""

    num_contrasts: int = 0
    """How many contrasts `contrast_acc` is the mean of; for the condition `pairs`."""

    as_coded: Mapping[str, float] = field(default_factory=dict)
    """The figures of `compat: comp646`: path and name → value."""


def hard_negative_figures(record: BenchmarkRecord) -> tuple[ConditionFigures, ...]:
    """Return the figures of every task that has hard negatives, in the order of tasks, conditions and systems.

    Raises:
        DataError: no query with a positive has a hard negative, or the depth cuts off positives or hard negatives of
            the condition `pairs`.
    """
    settings = [HardNegativesConfig.model_validate(entry) for entry in record.config.get("hard_negatives", ())]
    tasks = {task.name: task for task in record.tasks}
    return tuple(figures for entry in settings for figures in _of_task(record, tasks, entry))


def _of_task(
    record: BenchmarkRecord, tasks: Mapping[str, TaskRecord], entry: HardNegativesConfig
) -> Iterator[ConditionFigures]:
    base = tasks.get(entry.task)
    if base is None or not base.hard_negatives:
        return
    results = {system.name: record.results_of(system.name) for system in record.systems}
    of_base = {name: found[base.name] for name, found in results.items() if base.name in found}
    for name, result in of_base.items():
        yield _figures(record, base, name, BASE, result)
    for condition in entry.conditions:
        task = tasks[with_condition(base.name, condition)]
        there = {name: results[name][task.name] for name in of_base if task.name in results[name]}
        compared = _compared(record, of_base, there) if condition != PAIRS else {}
        for name, result in there.items():
            row = _figures(record, base, name, condition, result)
            if condition == PAIRS:
                yield _with_pairs(row, result, base, record.depth)
            else:
                yield _with_ranks(replace(row, difference=compared[name]), result, base, task, entry, record.depth)


def _figures(
    record: BenchmarkRecord, base: TaskRecord, system: str, condition: str, result: ResultRecord
) -> ConditionFigures:
    score = result.evaluation.means[record.main_measure]
    return ConditionFigures(task=base.name, system=system, condition=condition, score=score)


def _compared(
    record: BenchmarkRecord, base: Mapping[str, ResultRecord], changed: Mapping[str, ResultRecord]
) -> dict[str, Comparison]:
    of_base, of_changed = (
        {name: found[name].evaluation.values(record.main_measure) for name in changed} for found in (base, changed)
    )
    return differences(of_base, of_changed, seed=record.seed)


def _with_ranks(
    row: ConditionFigures,
    result: ResultRecord,
    base: TaskRecord,
    task: TaskRecord,
    entry: HardNegativesConfig,
    depth: int,
) -> ConditionFigures:
    hard = without_controls(base.hard_negatives)
    found = placed(result.run, base.qrels, hard, depth=depth)
    values = hard_negative_measures(found, cutoffs=entry.cutoffs, depth=depth)
    of_kinds = {
        kind: placed(result.run, base.qrels, negatives, depth=depth)
        for kind, negatives in _by_kind(hard, base.qrels).items()
    }
    as_coded: dict[str, float] = {}
    if row.condition != "own":
        values |= foreign_measures(found, cutoffs=entry.cutoffs, num_documents=task.counts["documents"])
        if entry.compat == "comp646":
            for path in ("bm25", "dense"):
                coded = comp646_figures(result.run, base.qrels, hard, cutoffs=entry.cutoffs, path=path)
                as_coded |= {f"comp646, {path} path: {name}": value for name, value in coded.items()}
    return replace(
        row,
        values=values,
        first_ranks=first_ranks(found),
        by_kind={
            kind: KindFigures(
                values=hard_negative_measures(of_kind, cutoffs=entry.cutoffs, depth=depth),
                first_ranks=first_ranks(of_kind),
            )
            for kind, of_kind in of_kinds.items()
        },
        as_coded=as_coded,
    )


def _with_pairs(row: ConditionFigures, result: ResultRecord, base: TaskRecord, depth: int) -> ConditionFigures:
    contrasts = [each for each in base.contrasts if all(query_id in base.qrels for query_id in each.query_ids)]

    def values(negatives: HardNegatives, of_kind: Sequence[Contrast]) -> dict[str, float]:
        values: dict[str, float] = {}
        if negatives:
            found = pair_accuracy(result.run, base.qrels, negatives, depth=depth)
            values["pair_acc"] = found.pair_acc
            if found.triplet_acc is not None:
                values["triplet_acc"] = found.triplet_acc
        if of_kind:
            values["contrast_acc"] = contrast_accuracy(result.run, of_kind, depth=depth)
            values["contrast_acc chance"] = CHANCE
        return values

    return replace(
        row,
        values=values(without_controls(base.hard_negatives), contrasts),
        by_kind={
            kind: KindFigures(values=values(negatives, [each for each in contrasts if each.kind == kind]))
            for kind, negatives in _by_kind(base.hard_negatives, base.qrels).items()
        },
        num_contrasts=len(contrasts),
    )


def _by_kind(labels: HardNegatives, qrels: Qrels) -> dict[str, HardNegatives]:
    """Return kind → the labels of this kind, for the kinds of queries with a positive, in alphabetical order."""
    measured = {query_id: own for query_id, own in labels.items() if positives_of(qrels.get(query_id, {}))}
    kinds = sorted({known.kind for own in measured.values() for known in own.values()} - {""})
    return {
        kind: {
            query_id: {doc_id: known for doc_id, known in own.items() if known.kind == kind}
            for query_id, own in measured.items()
        }
        for kind in kinds
    }
