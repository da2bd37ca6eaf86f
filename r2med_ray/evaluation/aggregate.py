"""Averages over tasks. They differ, and published tables mix them up, so each has its own name.

R2MED's "Avg." and MTEB's mean are `task_macro`. NanoR2MED's tables are query-weighted, and their recall is pooled.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.evaluate import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteAverage:
    """The mean of a suite, if every task of it was evaluated."""

    value: float | None
    missing: tuple[str, ...]
    """Tasks of the suite without an evaluation; `value` is None then."""


def task_macro(evaluations: Mapping[str, Evaluation], measure: str) -> float:
    """Return the unweighted mean over tasks of the mean over queries."""
    means = [mean_of(evaluation, measure) for evaluation in evaluations.values()]
    return math.fsum(means) / len(means)


def query_weighted(evaluations: Mapping[str, Evaluation], measure: str) -> float:
    """Return the mean over all queries of all tasks."""
    sums = [mean_of(evaluation, measure) * evaluation.num_queries for evaluation in evaluations.values()]
    return math.fsum(sums) / sum(evaluation.num_queries for evaluation in evaluations.values())


def pooled_micro_recall(evaluations: Mapping[str, Evaluation], k: int) -> float:
    """Return the share of all positives of all tasks that is among the first k of their query.

    Raises:
        ConfigError: `R@k` was not measured.
    """
    counts = [positives_found(evaluation, k) for evaluation in evaluations.values()]
    found, positives = map(sum, zip(*counts, strict=True))
    return found / positives


def positives_found(evaluation: Evaluation, k: int) -> tuple[int, int]:
    """Return how many positives are among the first k of their query, and how many there are.

    Raises:
        ConfigError: `R@k` was not measured.
    """
    mean_of(evaluation, f"R@{k}")
    recalls = evaluation.values(f"R@{k}")
    found = sum(round(recall * evaluation.num_positives[query_id]) for query_id, recall in recalls.items())
    return found, sum(evaluation.num_positives.values())


def suite_average(evaluations: Mapping[str, Evaluation], measure: str, suite: Sequence[str]) -> SuiteAverage:
    """Return `task_macro` over the tasks of a suite, or say which are missing."""
    missing = tuple(task for task in suite if task not in evaluations)
    if missing:
        return SuiteAverage(value=None, missing=missing)
    return SuiteAverage(value=task_macro({task: evaluations[task] for task in suite}, measure), missing=())


def mean_of(evaluation: Evaluation, measure: str) -> float:
    """Return the mean over queries.

    Raises:
        ConfigError: the measure was not measured.
    """
    if measure not in evaluation.means:
        raise ConfigError(f"{measure} was not measured; there is {', '.join(evaluation.means)}")
    return evaluation.means[measure]
