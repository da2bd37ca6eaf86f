"""Three kinds of averages over tasks, each with its own name.

Published tables mix the three kinds up. R2MED's "Avg." and MTEB's mean are `task_macro`. NanoR2MED's tables use
`query_weighted`, and `pooled_micro_recall` for recall.
"""

import math
from collections.abc import Mapping

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.evaluate import Evaluation


def task_macro(evaluations: Mapping[str, Evaluation], measure: str) -> float:
    """Return the unweighted mean over tasks. The value of a task is its mean over queries."""
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


def mean_of(evaluation: Evaluation, measure: str) -> float:
    """Return the mean over queries.

    Raises:
        ConfigError: the measure was not measured.
    """
    if measure not in evaluation.means:
        raise ConfigError(f"{measure} was not measured; there is {', '.join(evaluation.means)}")
    return evaluation.means[measure]
