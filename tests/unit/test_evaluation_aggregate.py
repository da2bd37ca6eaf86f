"""Averages over tasks, each under its own name."""

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.aggregate import pooled_micro_recall, query_weighted, task_macro
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.types import Run, ScoredDoc

# In Large, R@1 is 1 and 1/4, so the mean is 5/8. In Small, R@1 is 0 of 1.
EVALUATIONS = {
    "Large": evaluate(
        Run(tag="t", rankings={"q1": (ScoredDoc("a", 1.0),), "q2": (ScoredDoc("a", 1.0),)}),
        {"q1": {"a": 1}, "q2": {"a": 1, "b": 1, "c": 1, "d": 1}, "unrated": {"a": 0}},
        [Measure("R", 1)],
    ),
    "Small": evaluate(Run(tag="t", rankings={"q": (ScoredDoc("x", 1.0),)}), {"q": {"a": 1}}, [Measure("R", 1)]),
}


def test_three_averages_of_the_same_values():
    assert task_macro(EVALUATIONS, "R@1") == (5 / 8 + 0) / 2
    assert query_weighted(EVALUATIONS, "R@1") == pytest.approx((1 + 1 / 4 + 0) / 3)
    # 1 + 1 + 0 of 1 + 4 + 1 positives are found
    assert pooled_micro_recall(EVALUATIONS, 1) == 2 / 6


@pytest.mark.parametrize(
    "average",
    [
        lambda: task_macro(EVALUATIONS, "AP"),
        lambda: query_weighted(EVALUATIONS, "AP"),
        lambda: pooled_micro_recall(EVALUATIONS, 100),
    ],
)
def test_a_measure_that_was_not_taken_is_an_error(average):
    with pytest.raises(ConfigError, match=r"(AP|R@100) was not measured; there is R@1"):
        average()
