"""Tests whether a system is better than the baseline, or only had luck with these queries.

Paired randomisation test and bootstrap interval, as recommended for retrieval by Smucker, Allan and Carterette, "A
comparison of statistical significance tests for information retrieval evaluation", CIKM 2007; p-values of several
systems adjusted by Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statist. 1979.

Shape letters: N queries of all tasks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from r2med_ray.errors import DataError
from r2med_ray.evaluation.arrow import DoubleVector
from r2med_ray.types import QueryId

TaskValues: TypeAlias = Mapping[str, Mapping[QueryId, float]]
"""Task → query_id → value of one measure, as `Evaluation.values` gives it."""

_BATCH = 1000  # resamples that are held in memory at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A system against the baseline, in the unweighted mean over tasks."""

    difference: float
    """System minus baseline."""

    interval: tuple[float, float] | None
    """Confidence interval of the difference; None where a task has fewer than two queries to resample."""

    p_value: float
    """How often a difference this large, up or down, arises when the labels of each pair are swapped at random."""

    p_adjusted: float
    """The p-value after Holm's correction over all systems that are compared."""

    num_queries: int


def compare_with_baseline(
    baseline: TaskValues,
    systems: Mapping[str, TaskValues],
    *,
    seed: int,
    num_resamples: int = 10_000,
    confidence: float = 0.95,
) -> dict[str, Comparison]:
    """Compare each system with the baseline on the same queries.

    Where there are no more than `num_resamples` ways to swap labels, all are tried. A system's figures don't depend
    on which others are there, save for `p_adjusted`.

    Raises:
        DataError: a system has other tasks or queries than the baseline.
    """
    differences = {name: _differences(name, baseline, system) for name, system in systems.items()}
    p_values = {name: _p_value(tasks, seed, num_resamples) for name, tasks in differences.items()}
    adjusted = holm(p_values)
    return {
        name: Comparison(
            difference=float(_mean_of_means(*tasks)),
            interval=_interval(tasks, seed, num_resamples, confidence),
            p_value=p_values[name],
            p_adjusted=adjusted[name],
            num_queries=sum(map(len, tasks)),
        )
        for name, tasks in differences.items()
    }


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values adjusted by Holm, to be compared with the level that a single test would use."""
    adjusted = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, p_values[name] * (len(p_values) - rank)))
        adjusted[name] = largest
    return adjusted


def _differences(name: str, baseline: TaskValues, system: TaskValues) -> list[DoubleVector]:
    """Return each task's differences, queries in the baseline's order."""
    if baseline.keys() != system.keys():
        raise DataError(
            f"expected {name!r} to have the tasks {sorted(baseline)} of the baseline, got {sorted(system)}"
        )
    for task, values in baseline.items():
        for query_id in values.keys() ^ system[task].keys():
            raise DataError(f"task {task!r}, query {query_id!r}: not measured for both {name!r} and the baseline")
    return [
        np.array([system[task][query_id] - value for query_id, value in values.items()])
        for task, values in baseline.items()
    ]


def _mean_of_means(*tasks: DoubleVector, axis: int = -1) -> Any:
    return np.mean([task.mean(axis=axis) for task in tasks], axis=0)


def _p_value(tasks: list[DoubleVector], seed: int, num_resamples: int) -> float:
    from scipy import stats

    weighted_N = np.concatenate([task / len(task) for task in tasks])  # swapping a pair flips the sign of its part
    if len(weighted_N) == 1:
        return 1.0  # either sign is as far from 0
    result = stats.permutation_test(
        (weighted_N, np.zeros_like(weighted_N)),
        lambda system, baseline, axis: (system - baseline).sum(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=num_resamples,
        batch=_BATCH,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def _interval(
    tasks: list[DoubleVector], seed: int, num_resamples: int, confidence: float
) -> tuple[float, float] | None:
    """Return the percentile interval; queries are resampled within their task."""
    from scipy import stats

    if min(map(len, tasks)) < 2:
        return None
    interval = stats.bootstrap(
        tasks,
        _mean_of_means,
        vectorized=True,
        method="percentile",
        n_resamples=num_resamples,
        batch=_BATCH,
        confidence_level=confidence,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(interval.low), float(interval.high)
