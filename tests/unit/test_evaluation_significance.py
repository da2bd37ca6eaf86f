"""Tests of significance give values that can be worked out."""

import math

import numpy as np
import pytest
from scipy import stats

from r2med_ray.errors import DataError
from r2med_ray.evaluation.significance import compare_with_baseline, holm


def values(*numbers):
    return {f"q{i}": number for i, number in enumerate(numbers)}


def compare(baseline, system, **options):
    return compare_with_baseline(baseline, {"sys": system}, seed=1, **options)["sys"]


def test_few_queries_are_tested_exactly():
    comparison = compare({"T": values(0, 0, 0, 0)}, {"T": values(1, 1, 1, 1)})

    # of the 2**4 ways to swap labels, only all or none gives a difference of 1 or -1
    assert comparison.p_value == 2 / 16
    assert comparison.difference == 1.0
    assert comparison.interval == (1.0, 1.0)
    assert comparison.num_queries == 4


def test_no_difference_is_not_significant():
    comparison = compare({"T": values(0.5, 0.25, 1)}, {"T": values(0.5, 0.25, 1)})

    assert (comparison.p_value, comparison.difference, comparison.interval) == (1.0, 0.0, (0.0, 0.0))


def test_the_difference_is_the_mean_over_tasks_of_the_mean_over_queries():
    comparison = compare(
        {"Large": values(0, 0, 0, 0), "Small": values(0, 0)}, {"Large": values(1, 1, 0, 0), "Small": values(1, -0.5)}
    )

    # (2/4 + 0.5/2) / 2
    assert comparison.difference == 0.375
    assert comparison.num_queries == 6
    # The parts of the sum, times 8, are 1, 1, 2 and -1; together they are 3. There are 16 ways to choose their signs.
    # Of these, one gives 5, the largest sum, and three give 3. As many ways give at most -3.
    assert comparison.p_value == 8 / 16


def test_the_interval_is_that_of_the_normal_approximation_for_many_queries():
    differences = np.random.default_rng(3).normal(0.1, 0.5, 1000)
    comparison = compare({"T": values(*np.zeros(1000))}, {"T": values(*differences)}, num_resamples=4000)

    half = 1.96 * differences.std() / math.sqrt(1000)
    assert comparison.interval == pytest.approx((differences.mean() - half, differences.mean() + half), abs=0.004)
    # z = 0.1 / (0.5 / sqrt(1000)) is about 6. None of 4000 random swaps is as far from 0, so p is 2 * 1 / 4001.
    assert comparison.p_value == pytest.approx(2 / 4001)


@pytest.mark.parametrize("levels", [None, 4], ids=["all values differ", "many values are equal"])
def test_the_p_values_of_many_systems_are_those_that_scipy_gives_each_alone(levels: int | None) -> None:
    random = np.random.default_rng(4)
    zeros = {"Large": values(*np.zeros(90)), "Small": values(*np.zeros(30))}
    systems = {}
    for number in range(5):
        large, small = (random.normal(0.03 * number, 0.3, count) for count in (90, 30))
        if levels:
            large, small = np.round(large * levels) / levels, np.round(small * levels) / levels
        systems[f"s{number}"] = {"Large": values(*large), "Small": values(*small)}

    found = compare_with_baseline(zeros, systems, seed=6, num_resamples=2000)

    for name, system in systems.items():
        parts = np.concatenate([np.array(list(task.values())) / len(task) for task in system.values()])
        alone = stats.permutation_test(
            (parts, np.zeros(120)),
            lambda one, other, axis: (one - other).sum(axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=2000,
            batch=1000,
            rng=np.random.default_rng(6),
        )
        assert found[name].p_value == pytest.approx(alone.pvalue, abs=1e-12), name


def test_a_task_with_one_query_has_no_interval():
    comparison = compare({"T": values(0.0)}, {"T": values(1.0)})

    assert comparison.interval is None
    assert comparison.p_value == 1.0


def test_the_same_seed_gives_the_same_figures_whatever_else_is_compared():
    random = np.random.default_rng(5)
    baseline, one, other = ({"T": values(*random.random(60))} for _ in range(3))

    alone = compare_with_baseline(baseline, {"one": one}, seed=9, num_resamples=500)["one"]
    beside = compare_with_baseline(baseline, {"other": other, "one": one}, seed=9, num_resamples=500)["one"]
    again = compare_with_baseline(baseline, {"one": one}, seed=10, num_resamples=500)["one"]

    assert (alone.p_value, alone.interval) == (beside.p_value, beside.interval)
    assert alone.interval != again.interval


def test_holm_multiplies_the_smallest_most_and_never_falls_back():
    # 0.01 * 3, 0.02 * 2, max(0.04, 0.03 * 1); and 0.6 * 2 is cut at 1
    assert holm({"b": 0.02, "c": 0.03, "a": 0.01}) == pytest.approx({"a": 0.03, "b": 0.04, "c": 0.04})
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}


def test_systems_are_adjusted_together():
    zeros, ones = {"T": values(*[0] * 6)}, {"T": values(*[1] * 6)}

    comparisons = compare_with_baseline(zeros, {"better": ones, "same": zeros}, seed=1)

    # the test is exact: 2 / 2**6, times two systems
    assert comparisons["better"].p_value == 2 / 64
    assert comparisons["better"].p_adjusted == 4 / 64
    assert comparisons["same"].p_adjusted == 1.0


def test_other_queries_or_tasks_are_refused():
    with pytest.raises(DataError, match=r"task 'T', query 'q1': not measured for both 'sys' and the baseline"):
        compare({"T": values(0, 0)}, {"T": values(0)})
    with pytest.raises(DataError, match=r"expected 'sys' to have the tasks \['T'\] of the baseline, got \['U'\]"):
        compare({"T": values(0)}, {"U": values(0)})
