"""Two systems of one report, or the systems of two reports: per task, with wins, ties, losses and significance."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.evaluation.significance import Comparison, TaskValues, adjusted, compare_with_baseline
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.scales import measures_of
from r2med_ray.settings.hard_negatives import is_condition
from r2med_ray.settings.registry import Registry, nearest

MEAN = "Mean"

TIE = 1e-12
"""Values of a query that are this near are equal: they differ by the order of a sum's terms at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The values of two systems on the tasks that both have run."""

    a: str
    b: str
    values_a: TaskValues
    values_b: TaskValues
    seed: int

    @property
    def averaged(self) -> list[str]:
        """The tasks that the mean is over: all but conditions with hard negatives."""
        return [task for task in self.values_a if not is_condition(task)]

    def gains(self, tasks: Iterable[str]) -> list[float]:
        """Return by how much B is better than A on each query of some tasks."""
        return [
            self.values_b[task][query_id] - value for task in tasks for query_id, value in self.values_a[task].items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """How B differs from A, on one task or in the unweighted mean over the tasks."""

    pair: Pair
    task: str
    """The task's name, or `Mean`."""

    mean_a: float
    mean_b: float
    comparison: Comparison
    """`p_adjusted` is adjusted by Holm over the tasks of all pairs, or over the means of all pairs."""

    wins: int
    """Queries on which B is better."""

    ties: int
    losses: int


def with_main_measure(record: BenchmarkRecord, measure: str | None) -> BenchmarkRecord:
    """Return the record with another main measure; None keeps the record's own.

    Raises:
        ConfigError: the report doesn't have the measure.
    """
    if measure is None:
        return record
    if measure not in record.measures:
        hint = nearest(measure, record.measures)
        raise ConfigError(f"{record.name} has no measure {measure!r}.{hint} Known: {', '.join(record.measures)}")
    return replace(record, main_measure=measure, compared={} if measure != record.main_measure else record.compared)


def pairs_of(a: BenchmarkRecord, b: BenchmarkRecord, systems: Sequence[str]) -> list[Pair]:
    """Return the pairs that are to be compared, in the main measure of `a`.

    Args:
        a: a report.
        b: another report, or the same one.
        systems: the system of `a` and the system of `b`; one name for both; or none, for every name that both have.

    Raises:
        ConfigError: a report has no such system or measure, or there is nothing to compare.
        DataError: the reports judge a task differently, so their figures can't be compared.
    """
    if len(systems) > 2 or (a is b and len(set(systems)) != 2):
        raise ConfigError("name two systems of one report, --system A --system B, or give a second report")
    if measures_of(b).get(a.main_measure) != measures_of(a)[a.main_measure]:
        raise ConfigError(f"{b.name} wasn't measured in {a.main_measure}; name a measure of both with --measure")
    known_a, known_b = (
        Registry(f"system of {record.name}", [(system.name, system) for system in record.systems])
        for record in (a, b)
    )
    wanted = [(systems[0], systems[-1])] if systems else [(name, name) for name in known_a if name in known_b]
    if not wanted:
        raise ConfigError(f"{a.name} and {b.name} have no system with the same name; name two with --system")
    _require_same_judgements(a, b)
    return [_pair(a, known_a[name_a].name, b, known_b[name_b].name) for name_a, name_b in wanted]


def pair_rows(pairs: Sequence[Pair]) -> list[PairRow]:
    """Return for each pair one row per task, and the mean over the tasks if there are several."""
    tasks = _adjusted([_row(pair, task, [task]) for pair in pairs for task in pair.values_a])
    means = _adjusted([_row(pair, MEAN, pair.averaged) for pair in pairs if len(pair.averaged) > 1])
    return [row for pair in pairs for row in (*tasks, *means) if row.pair is pair]


def left_out(a: BenchmarkRecord, b: BenchmarkRecord, pairs: Sequence[Pair]) -> list[str]:
    """Return the tasks of the two reports that not every pair could be compared on."""
    names = dict.fromkeys(task.name for task in (*a.tasks, *b.tasks))
    return [name for name in names if not all(name in pair.values_a for pair in pairs)]


def _pair(a: BenchmarkRecord, name_a: str, b: BenchmarkRecord, name_b: str) -> Pair:
    values_a, values_b = values_of(a, name_a, a.main_measure), values_of(b, name_b, a.main_measure)
    tasks = [task for task in values_a if task in values_b]
    if not tasks:
        raise ConfigError(f"{name_a!r} of {a.name} and {name_b!r} of {b.name} have no task that both have run")
    return Pair(
        a=name_a,
        b=name_b,
        values_a={task: values_a[task] for task in tasks},
        values_b={task: values_b[task] for task in tasks},
        seed=a.seed,
    )


def values_of(record: BenchmarkRecord, system: str, measure: str) -> TaskValues:
    """Return task → query_id → value of one system, for the queries that the means are over."""
    return {task: result.evaluation.values(measure) for task, result in record.results_of(system).items()}


def _require_same_judgements(a: BenchmarkRecord, b: BenchmarkRecord) -> None:
    others = {task.name: task.qrels for task in b.tasks}
    for task in a.tasks:
        if (qrels := others.get(task.name)) and task.qrels and qrels != task.qrels:
            raise DataError(
                f"task {task.name!r} has other judgements in {b.name} ({len(qrels)} queries) than in {a.name} "
                f"({len(task.qrels)} queries), so its figures can't be compared"
            )


def _row(pair: Pair, name: str, tasks: Sequence[str]) -> PairRow:
    values_a = {task: pair.values_a[task] for task in tasks}
    values_b = {task: pair.values_b[task] for task in tasks}
    found = compare_with_baseline(values_a, {pair.b: values_b}, seed=pair.seed)[pair.b]
    gains = pair.gains(tasks)
    wins, losses = sum(gain > TIE for gain in gains), sum(gain < -TIE for gain in gains)
    return PairRow(
        pair=pair,
        task=name,
        mean_a=_mean_of_means(values_a),
        mean_b=_mean_of_means(values_b),
        comparison=found,
        wins=wins,
        ties=len(gains) - wins - losses,
        losses=losses,
    )


def _mean_of_means(values: Mapping[str, Mapping[str, float]]) -> float:
    return fmean(fmean(of_task.values()) for of_task in values.values())


def _adjusted(rows: Sequence[PairRow]) -> list[PairRow]:
    found = adjusted({number: row.comparison for number, row in enumerate(rows)})
    return [replace(row, comparison=found[number]) for number, row in enumerate(rows)]
