"""Tests whether a system is better than the baseline or only had luck with these queries.

The p-value comes from a paired randomisation test and the interval from a bootstrap. Both are recommended for
retrieval by Smucker, Allan and Carterette, "A comparison of statistical significance tests for information retrieval
evaluation", CIKM 2007. The p-values of several systems are adjusted by Holm, "A simple sequentially rejective
multiple test procedure", Scand. J. Statist. 1979.

Shape letters: N queries of all tasks, S systems, R resamples.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from r2med_ray.errors import DataError
from r2med_ray.storage.arrow import DoubleVector
from r2med_ray.types import QueryId

K = TypeVar("K", bound=Hashable)

TaskValues: TypeAlias = Mapping[str, Mapping[QueryId, float]]
"""Task → query_id → value of one measure, as `Evaluation.values` gives it."""

_BATCH = 1000  # number of resamples that are worked on at once

_ROUNDING = 1e-12
"""Sums that differ by less than this share of their parts are equal: the order of adding changes the last bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of a system with the baseline, in the unweighted mean over tasks."""

    difference: float
    """The system's mean minus the baseline's."""

    interval: tuple[float, float] | None
    """Confidence interval of the difference; None if a task has fewer than two queries to resample."""

    p_value: float
    """How often a difference this large, up or down, arises if the labels of each pair are swapped at random."""

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

    If there are no more than `num_resamples` ways to swap labels, all are tried. The figures of a system, except
    `p_adjusted`, don't depend on the other systems.

    Raises:
        DataError: a system has other tasks or queries than the baseline.
    """
    differences = {name: _differences(name, baseline, system) for name, system in systems.items()}
    p_values = _p_values(differences, seed, num_resamples)
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


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Return p-values adjusted by Holm. They are compared with the same level as the p-value of a single test."""
    adjusted = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, p_values[name] * (len(p_values) - rank)))
        adjusted[name] = largest
    return adjusted


def adjusted(found: Mapping[K, Comparison]) -> dict[K, Comparison]:
    """Return comparisons whose p-values are adjusted by Holm for all of them."""
    p_values = holm({key: comparison.p_value for key, comparison in found.items()})
    return {key: replace(comparison, p_adjusted=p_values[key]) for key, comparison in found.items()}


def _differences(name: str, baseline: TaskValues, system: TaskValues) -> list[DoubleVector]:
    """Return the differences per task. The queries of a task are in the baseline's order."""
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


def _p_values(systems: Mapping[str, list[DoubleVector]], seed: int, num_resamples: int) -> dict[str, float]:
    """Return the p-value of each system, two-sided as `scipy.stats.permutation_test` defines it.

    All systems are tested with the same swaps. So these are drawn once, and the differences under all of them are one
    product of matrices.
    """
    if not systems:
        return {}
    # Swapping a pair flips the sign of its part of the difference. Axes: systems, queries.
    parts_SN = np.array([np.concatenate([task / len(task) for task in tasks]) for tasks in systems.values()])
    if parts_SN.shape[1] == 1:
        return dict.fromkeys(systems, 1.0)  # either sign is as far from 0
    found_S = parts_SN.sum(axis=1)
    slack_S = _ROUNDING * np.abs(parts_SN).sum(axis=1)
    tails_2S, num_swaps = np.zeros((2, len(systems))), 0
    for signs_RN in _signs(parts_SN.shape[1], seed, num_resamples):
        differences_RS = signs_RN @ parts_SN.T
        tails_2S[0] += (differences_RS <= found_S + slack_S).sum(axis=0)
        tails_2S[1] += (differences_RS >= found_S - slack_S).sum(axis=0)
        num_swaps += len(signs_RN)
    drawn = num_swaps < 2.0 ** parts_SN.shape[1]  # then the labels as they are count as one more swap
    p_values_S = 2 * (tails_2S.min(axis=0) + drawn) / (num_swaps + drawn)
    return dict(zip(systems, np.minimum(1.0, p_values_S).tolist(), strict=True))


def _signs(num_queries: int, seed: int, num_resamples: int) -> list[npt.NDArray[np.int8]]:
    """Return the sign of each query's difference, +1 or -1, under the swaps that SciPy tries, in batches of swaps.

    SciPy tries all ways to swap labels if they are no more than `num_resamples`, and else draws so many.
    """
    from scipy import stats

    batches: list[npt.NDArray[np.int8]] = []

    def keep(first: npt.NDArray[np.int8], second: npt.NDArray[np.int8], axis: int) -> Any:
        if first.ndim == 2:  # otherwise the labels are as they were
            batches.append(first)
        return first.sum(axis=axis)

    ones_N = np.ones(num_queries, np.int8)
    stats.permutation_test(
        (ones_N, -ones_N),
        keep,
        permutation_type="samples",
        vectorized=True,
        n_resamples=num_resamples,
        batch=_BATCH,
        rng=np.random.default_rng(seed),
    )
    return batches


def _interval(
    tasks: list[DoubleVector], seed: int, num_resamples: int, confidence: float
) -> tuple[float, float] | None:
    """Return the percentile interval of a bootstrap. Queries are resampled within their task."""
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
