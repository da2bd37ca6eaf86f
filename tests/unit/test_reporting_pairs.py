"""Two systems are compared query by query. The figures are worked out by hand; pandas and scipy have a look too."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.reporting.pair_tables import query_columns
from r2med_ray.reporting.pairs import left_out, pair_rows, pairs_of, with_main_measure
from r2med_ray.reporting.record import TaskRecord
from r2med_ray.reporting.scales import POINTS
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import write_report
from tests.unit.reporting_records import ALPHA, BETA, RESULTS, SECOND, record, result

MANY = TaskRecord(name="Many", suite="Greek", revision="", qrels={f"q{n}": {"d": 1} for n in range(20)})
GAMMA = replace(ALPHA, name="Gamma")


def test_wins_ties_and_losses_are_counted_per_task_and_over_all():
    # RR: first has 1, 1/2 on Alpha and 1 on Beta; second has 1/2, 0 on Alpha and 0 on Beta. So second always loses.
    ours = record()
    rows = pair_rows(pairs_of(ours, ours, ["first", "second"]))

    assert [(row.task, row.wins, row.ties, row.losses) for row in rows] == [
        ("Alpha", 0, 0, 2),
        ("Beta", 0, 0, 1),
        ("Mean", 0, 0, 3),
    ]
    assert [(row.mean_a, row.mean_b) for row in rows] == [(0.75, 0.25), (1.0, 0.0), (0.875, 0.125)]
    # Alpha alone: of the 4 ways to swap labels 2 are as far from 0. Beta: either way is. Mean: 2 of 8.
    assert [row.comparison.p_value for row in rows] == [0.5, 1.0, 0.25]
    # Holm over two tasks: 2 · 0.5 = 1. There is one mean.
    assert [row.comparison.p_adjusted for row in rows] == [1.0, 1.0, 0.25]


def test_a_sum_in_another_order_is_a_tie():
    # (0.1 + 0.2) + 0.3 and 0.1 + (0.2 + 0.3) differ in the last bit.
    first, second = (result(name, ALPHA, {"q1": "d1", "q2": "d2"}) for name in ("first", "second"))
    for each, value in ((first, 0.1 + 0.2 + 0.3), (second, 0.1 + (0.2 + 0.3))):
        each.evaluation.per_query["q1"]["RR"] = value
    both = record(tasks=(ALPHA,), results=(first, second))

    [row] = pair_rows(pairs_of(both, both, ["first", "second"]))
    assert (row.wins, row.ties, row.losses) == (0, 2, 0)
    assert first.evaluation.per_query["q1"]["RR"] != second.evaluation.per_query["q1"]["RR"]


def test_a_clear_difference_is_written_at_the_floor_and_scipy_finds_the_same_interval(tmp_path: Path):
    better = result("first", MANY, dict.fromkeys(MANY.qrels, "d"))
    worse = result("second", MANY, {f"q{n}": " ".join([*"xyz"[: 1 + n % 3], "d"]) for n in range(20)})
    both = record(tasks=(MANY,), results=(better, worse))

    [row] = pair_rows(pairs_of(both, both, ["second", "first"]))
    gains = np.array([1 - 1 / (2 + n % 3) for n in range(20)])
    # t's interval is an approximation of the bootstrap's: the two ends agree within a tenth of the interval.
    low, high = stats.t.interval(0.95, 19, loc=gains.mean(), scale=stats.sem(gains))
    assert row.comparison.interval == pytest.approx((low, high), abs=0.1 * (high - low))
    # All 20 differences point up, so 2 of 2^20 ways to swap are as far from 0: about 2e-6.
    # The 10,000 ways that are tried can't show less than 2 / 10,001.
    assert row.comparison.p_value == pytest.approx(2 / 10_001)

    write_report(summarise(both), tmp_path / "report")
    arguments = ["compare", str(tmp_path / "report"), "--system", "second", "--system", "first"]
    shown = CliRunner().invoke(app, arguments)
    assert "  < 0.001  " in shown.stdout
    exact = pd.read_csv(io.StringIO(CliRunner().invoke(app, [*arguments, "--format", "csv"]).stdout))
    assert exact["p"][0] == row.comparison.p_value
    assert exact["Δ"][0] == pytest.approx(gains.mean(), abs=1e-15)


def test_two_runs_are_compared_in_the_systems_that_both_have_and_what_only_one_ran_is_named():
    theirs = record(
        name="roman",
        tasks=(BETA, GAMMA),
        systems=(SECOND,),
        results=(result("second", BETA, {"q3": "d3"}), result("second", GAMMA, {"q1": "d1"})),
    )

    [pair] = pairs_of(record(), theirs, [])
    assert (pair.a, pair.b, list(pair.values_a)) == ("second", "second", ["Beta"])
    assert left_out(record(), theirs, [pair]) == ["Alpha", "Gamma"]
    # 0 in greek, 1 in roman
    assert [(row.task, row.comparison.difference, row.wins) for row in pair_rows([pair])] == [("Beta", 1.0, 1)]


def test_two_runs_with_other_judgements_are_not_compared():
    judged = replace(BETA, qrels={"q3": {"d3": 1}})
    theirs = record(name="roman", tasks=(judged,), results=(result("second", judged, {"q3": "d3"}),))

    with pytest.raises(DataError, match=r"task 'Beta' has other judgements in roman \(1 queries\) than in greek"):
        pairs_of(record(), theirs, [])


@pytest.mark.parametrize(
    ("systems", "message"),
    [
        (["first"], "name two systems of one report, --system A --system B, or give a second report"),
        (["first", "first"], "name two systems of one report"),
        (["first", "secnd"], r"unknown system of greek 'secnd'. Did you mean 'second'\? Known: first, second"),
    ],
)
def test_a_pair_that_is_none_is_refused(systems, message):
    ours = record()
    with pytest.raises(ConfigError, match=message):
        pairs_of(ours, ours, systems)


def test_another_measure_can_be_compared_and_an_unknown_one_names_the_nearest():
    other = with_main_measure(record(), "R@1")

    # R@1 on Beta: first finds 1 of 3 positives.
    rows = pair_rows(pairs_of(other, other, ["second", "first"]))
    assert [row.mean_b for row in rows if row.task == "Beta"] == [pytest.approx(1 / 3)]
    with pytest.raises(ConfigError, match=r"greek has no measure 'R@2'. Did you mean 'R@1'\? Known: RR, R@1"):
        with_main_measure(record(), "R@2")


def test_the_values_of_queries_stand_beside_each_other():
    columns = query_columns({"a": {"T": {"q1": 0.5, "q2": 1.0}}, "b": {"T": {"q1": 0.25}, "U": {"q9": 1.0}}}, POINTS)

    assert {column.title: column.texts for column in columns} == {
        "Task": ["T", "T", "U"],
        "Query": ["q1", "q2", "q9"],
        "a": ["50.00", "100.00", "–"],
        "b": ["25.00", "–", "100.00"],
        "Δ": ["−25.00", "–", "–"],
    }


def test_the_table_of_queries_holds_what_pandas_averages_to_the_means(tmp_path: Path):
    write_report(summarise(record()), tmp_path / "report")
    shown = CliRunner().invoke(app, ["compare", str(tmp_path / "report"), "--queries", "--format", "csv"]).stdout

    means = pd.read_csv(io.StringIO(shown)).groupby("Task")[["first", "second"]].mean()
    assert means.to_dict() == {"first": {"Alpha": 0.75, "Beta": 1.0}, "second": {"Alpha": 0.25, "Beta": 0.0}}


def test_what_is_published_is_not_mixed_with_other_comparisons(tmp_path: Path):
    caught = CliRunner().invoke(app, ["compare", str(tmp_path), "--published", "--queries"]).exception

    assert "--published stands alone" in str(caught)


def test_a_condition_with_hard_negatives_has_a_row_and_is_not_in_the_mean(tmp_path: Path):
    condition = replace(ALPHA, name="Alpha+hn-all")
    again = [replace(each, task="Alpha+hn-all") for each in RESULTS if each.task == "Alpha"]
    both = record(tasks=(ALPHA, condition, BETA), results=[*RESULTS, *again])

    rows = {row.task: row for row in pair_rows(pairs_of(both, both, ["first", "second"]))}
    assert list(rows) == ["Alpha", "Alpha+hn-all", "Beta", "Mean"]
    # As without it: (0.75 + 1) / 2, and three queries.
    assert (rows["Mean"].mean_a, rows["Mean"].losses) == (0.875, 3)
    [pair] = pairs_of(both, both, ["first", "second"])
    assert len(pair.gains(pair.averaged)) == 3
