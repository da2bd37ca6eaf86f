"""Our figures beside published ones; those of R2MED's repository for `bm25` at nDCG@10."""

from dataclasses import replace

from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.reporting.compare import compare_with_published, published_columns
from r2med_ray.reporting.record import BenchmarkRecord, SystemRecord, TaskRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_markdown
from tests.unit.reporting_records import record, result

TASKS = tuple(
    TaskRecord(name=name, suite="R2MED", revision="", qrels={"q1": {"d1": 1}})
    for name in ("IIYi-Clinical", "PMC-Clinical")
)
OURS = SystemRecord(name="ours", description="bm25", published_key={"retriever": "bm25"})
OTHER = SystemRecord(name="other", description="bm25")


def benchmark(values: dict[str, float]) -> BenchmarkRecord:
    """Return a benchmark in which `ours` and `other` have these means."""
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
    return record(tasks=TASKS, systems=(OURS, OTHER), results=results, measures=("nDCG@10",), main_measure="nDCG@10")


def test_each_task_and_the_mean_are_compared():
    system, task, ours, published, difference, source = published_columns(
        summarise(benchmark({"IIYi-Clinical": 0.13, "PMC-Clinical": 0.21}))
    )

    assert system.texts == ["ours", "ours", "ours"]
    assert task.texts == ["IIYi-Clinical", "PMC-Clinical", "Mean"]
    assert ours.texts == ["13.00", "21.00", "17.00"]
    # 0.12024 and 0.21662 in the result files
    assert published.texts == ["12.02", "21.66", "16.84"]
    # 13 - 12.024, 21 - 21.662, 17 - 16.843
    assert difference.texts == ["+0.98", "−0.66", "+0.16"]
    assert source.texts == ["GitHub R2MED/R2MED@62b7074", "GitHub R2MED/R2MED@62b7074", ""]


def test_a_mean_is_compared_only_where_every_task_is_there():
    columns = published_columns(summarise(benchmark({"IIYi-Clinical": 0.13})))

    assert columns[1].texts == ["IIYi-Clinical"]


def test_a_published_mean_stands_beside_ours_on_the_leaderboard():
    text = leaderboard_markdown(summarise(benchmark({"IIYi-Clinical": 0.13, "PMC-Clinical": 0.21})))

    assert "| System | Mean | IIYi-Clinical | PMC-Clinical | Published |" in text
    assert "| ours | **17.00** | **13.00** | **21.00** | 16.84 |" in text


def test_the_comparison_can_be_read_in_a_terminal():
    lines = compare_with_published(benchmark({"IIYi-Clinical": 0.13})).splitlines()

    assert lines[0] == "greek: nDCG@10 on a scale of 0–100"
    assert lines[-1].split() == ["ours", "IIYi-Clinical", "13.00", "12.02", "+0.98", "GitHub", "R2MED/R2MED@62b7074"]


def test_nothing_published_is_said():
    assert compare_with_published(record()) == "greek: no RR is published for any of its systems and tasks\n"
