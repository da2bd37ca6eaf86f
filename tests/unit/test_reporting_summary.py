"""The leaderboard's figures, worked out from the small benchmark of `reporting_records`.

RR      first: q1 1, q2 1/2, q3 1          second: q1 1/2, q2 0, q3 0
R@1     first: q1 1, q2 0,   q3 1/3        second: 0 everywhere
"""

from dataclasses import replace

import pytest

from r2med_ray.reporting.summary import summarise
from tests.unit.reporting_records import ALPHA, BETA, FIRST, RESULTS, SECOND, record


def test_means_weigh_tasks_equally():
    best = summarise(record()).rows[0]

    assert best.system.name == "first"
    # Alpha has (1 + 1/2) / 2, Beta has 1
    assert best.scores == {"Alpha": 0.75, "Beta": 1.0}
    # RR is (0.75 + 1) / 2; R@1 is 1/2 on Alpha and 1/3 on Beta
    assert best.means == {"RR": 0.875, "R@1": pytest.approx(5 / 12)}


def test_the_other_averages_weigh_queries_and_relevant_documents():
    best = summarise(record()).rows[0]

    # (1 + 1/2 + 1) / 3
    assert best.query_weighted == pytest.approx(2.5 / 3)
    # 2 of the 5 relevant documents are at rank 1
    assert best.micro_recall == {"R@1": pytest.approx(0.4)}


def test_systems_stand_from_best_to_worst_whatever_their_order():
    backwards = record(systems=(SECOND, FIRST), results=RESULTS[::-1])

    assert [row.system.name for row in summarise(backwards).rows] == ["first", "second"]


def test_a_system_that_lacks_a_task_has_no_mean_and_stands_last():
    rows = summarise(record(results=RESULTS[1:])).rows

    assert [row.system.name for row in rows] == ["second", "first"]
    assert rows[1].scores == {"Beta": 1.0}
    assert rows[1].means == {}
    assert rows[1].query_weighted is None
    assert rows[1].suite_means == {}


def test_suites_have_means_of_their_own():
    other = replace(BETA, suite="Other")
    best = summarise(record(tasks=(ALPHA, other))).rows[0]

    assert best.suite_means == {"Greek": 0.75, "Other": 1.0}


def test_the_baseline_is_compared_on_the_mean_over_tasks():
    first, second = summarise(record(baseline="second")).rows

    assert second.comparison is None
    assert first.comparison is not None
    # `first` has 0.875, `second` has (1/4 + 0) / 2
    assert first.comparison.difference == pytest.approx(0.75)
    # of the 8 ways to swap three pairs, two give a difference as extreme as this one: no swap, and all swaps
    assert first.comparison.p_adjusted == pytest.approx(0.25)
    assert not first.is_significant


def test_a_baseline_that_lacks_a_task_compares_nothing():
    rows = summarise(record(baseline="second", results=RESULTS[:3])).rows

    assert [row.comparison for row in rows] == [None, None]


def test_a_query_with_two_flags_counts_once():
    first, second = summarise(record()).rows

    assert (first.num_flagged, first.num_unanswered, first.num_unjudged) == (2, 0, 0)
    assert (second.num_flagged, second.num_unanswered, second.num_unjudged) == (0, 1, 0)


def test_a_condition_with_hard_negatives_adds_nothing_to_the_counts_of_the_leaderboard():
    condition = replace(ALPHA, name="Alpha+hn-all")
    again = [replace(each, task="Alpha+hn-all") for each in RESULTS if each.task == "Alpha"]
    plain, with_condition = (
        summarise(record(tasks=tasks, results=results))
        for tasks, results in (((ALPHA, BETA), RESULTS), ((ALPHA, condition, BETA), [*RESULTS, *again]))
    )

    assert with_condition.rows == plain.rows
