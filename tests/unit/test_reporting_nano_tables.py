"""The leaderboard has NanoR2MED's averages."""

from dataclasses import replace

from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.nano_profile import MEASURES
from r2med_ray.reporting.nano_tables import nano_sections
from r2med_ray.reporting.record import BenchmarkRecord, ResultRecord, SystemRecord, TaskRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.retrieval.ranked_lists import in_order
from r2med_ray.types import Run

QRELS = {"q1": {"d1": 1, "d2": 1, "d3": 1}, "q2": {"d4": 1}}
OTHER = {"q3": {"d5": 1}}
RUN = Run(tag="r", rankings={"q1": in_order(["d1", "x"]), "q2": in_order(["d4"])})


def result(system: str, task: str, qrels: dict[str, dict[str, int]], run: Run) -> ResultRecord:
    evaluation = evaluate(run, qrels, [Measure.parse(name) for name in MEASURES])
    return ResultRecord(system=system, task=task, evaluation=evaluation, run=run)


def record(*, suite: str = "NanoR2MED") -> BenchmarkRecord:
    missed = Run(tag="r", rankings={"q3": in_order(["x"])})
    return BenchmarkRecord(
        name="b",
        config={},
        measures=MEASURES,
        main_measure="nDCG@10",
        baseline=None,
        depth=100,
        seed=1,
        tasks=(
            TaskRecord(name="A", suite=suite, revision="1", qrels=QRELS, counts={"safeguards": 3}),
            TaskRecord(name="B", suite=suite, revision="1", qrels=OTHER, counts={"safeguards": 4}),
        ),
        systems=(SystemRecord(name="whole", description="d"), SystemRecord(name="half", description="d")),
        results=(
            result("whole", "A", QRELS, RUN),
            result("whole", "B", OTHER, missed),
            result("half", "A", QRELS, RUN),
        ),
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:00:00+00:00",
    )


def cells(line: str) -> list[str]:
    return [cell.strip(" *").replace("\\", "") for cell in line.strip("| ").split(" | ")]


def test_the_averages_have_the_names_of_the_published_tables() -> None:
    text = "".join(nano_sections(summarise(record())))
    head, _, row = (cells(line) for line in text.split("\n")[1:4])
    figures = dict(zip(head, row, strict=True))

    # In A, 2 of 4 positives are found, and both queries have a hit. In B, 0 of 1 is found, without a hit. Hits are 2
    # of 3 by query and (1 + 0) / 2 by task.
    assert figures["query_weighted_hit_at_10"] == "66.67"
    assert figures["task_macro_hit_at_10"] == "50.00"
    # Recall is (2 · 0.5 + 1 · 0) / 3 by query, (0.5 + 0) / 2 by task, and 2 / 5 pooled.
    assert figures["query_weighted_recall_at_100"] == "33.33"
    assert figures["task_macro_recall_at_100"] == "25.00"
    assert figures["pooled_micro_recall_at_100"] == "40.00"


def test_the_safeguards_of_the_tasks_are_told() -> None:
    assert "7 lists of reranking_hybrid in these tasks carry a positive at rank 101" in "".join(
        nano_sections(summarise(record()))
    )


def test_a_system_that_lacks_a_task_is_left_out() -> None:
    assert "half" not in "".join(nano_sections(summarise(record())))


def test_nothing_is_said_of_other_suites_or_without_the_measures() -> None:
    assert nano_sections(summarise(record(suite="R2MED"))) == []
    assert nano_sections(summarise(replace(record(), measures=("nDCG@10",)))) == []
