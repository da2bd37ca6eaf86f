"""Our figures beside published ones; those of R2MED's repository for `bm25` at nDCG@10."""

from dataclasses import replace

import pytest

from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.evaluation.published import published_score
from r2med_ray.reporting.compare import compare_with_published, published_columns
from r2med_ray.reporting.record import SystemRecord, TaskRecord
from r2med_ray.reporting.summary import Summary, summarise
from tests.unit.reporting_records import record, result

TASKS = tuple(
    TaskRecord(name=name, suite="R2MED", revision="", qrels={"q1": {"d1": 1}})
    for name in ("IIYi-Clinical", "PMC-Clinical")
)
OURS = SystemRecord(name="ours", description="bm25", published_key={"retriever": "bm25"})
OTHER = SystemRecord(name="other", description="bm25")


def summary(values: dict[str, float]) -> Summary:
    """Return a leaderboard on which `ours` and `other` have these means."""
    results = [
        replace(
            result(system.name, task, {"q1": "d1"}),
            evaluation=Evaluation(
                means={"nDCG@10": values[task.name]},
                per_query={"q1": {"nDCG@10": values[task.name]}},
                num_positives={"q1": 1},
                num_unanswered=0,
                num_unjudged=0,
            ),
        )
        for system in (OURS, OTHER)
        for task in TASKS
        if task.name in values
    ]
    return summarise(
        record(
            tasks=TASKS, systems=(OURS, OTHER), results=results, measures=("nDCG@10",), main_measure="nDCG@10"
        )
    )


def test_each_task_and_the_mean_are_compared():
    found = compare_with_published(summary({"IIYi-Clinical": 0.13, "PMC-Clinical": 0.21}))

    assert [(entry.system, entry.task) for entry in found] == [
        ("ours", "IIYi-Clinical"),
        ("ours", "PMC-Clinical"),
        ("ours", "Mean"),
    ]
    # 0.12024 and 0.21662 in the result files
    assert [entry.published for entry in found] == [0.12024, 0.21662, pytest.approx(0.16843)]
    assert [entry.ours for entry in found] == [0.13, 0.21, pytest.approx(0.17)]
    assert found[0].source == "GitHub R2MED/R2MED@62b7074"


def test_a_mean_is_compared_only_where_every_task_is_there():
    found = compare_with_published(summary({"IIYi-Clinical": 0.13}))

    assert [entry.task for entry in found] == ["IIYi-Clinical"]


def test_the_table_shows_the_difference():
    columns = published_columns(summary({"IIYi-Clinical": 0.13, "PMC-Clinical": 0.21}))
    ours, published, difference = (column.texts for column in columns[2:5])

    assert ours == ["13.00", "21.00", "17.00"]
    assert published == ["12.02", "21.66", "16.84"]
    # 13 - 12.024, 21 - 21.662, 17 - 16.843
    assert difference == ["+0.98", "−0.66", "+0.16"]


def test_nothing_published_is_no_table():
    assert published_columns(summarise(record())) == []
