"""What the page's script is given: figures by position, and what each system cost."""

from dataclasses import replace
from typing import Any

from r2med_ray.reporting.page_data import page_data
from r2med_ray.reporting.part_records import ModelRecord
from r2med_ray.reporting.record import StageRecord
from r2med_ray.reporting.summary import summarise
from tests.unit.reporting_records import FIRST, RESULTS, SECOND, record


def data(**fields: Any) -> Any:
    return page_data(summarise(record(**fields)))


def test_figures_are_by_measure_system_and_task():
    found = data()

    assert found["values"]["RR"] == [[0.75, 1.0], [0.25, 0.0]]
    assert found["order"] == [0, 1]
    assert [task["script"] for task in found["tasks"]] == ["queries/Alpha.js", "queries/Beta.js"]


def test_a_system_that_has_not_run_a_task_has_no_figure_there():
    assert data(results=RESULTS[1:])["values"]["RR"][0] == [None, 1.0]


def test_costs_are_those_of_the_work_that_was_done_with_the_systems_retrievers():
    stages = [
        StageRecord(stage="encode", unit="e5", documents=100, seconds=2.0, reused=False, tokens=7000),
        StageRecord(stage="encode queries", unit="e5", documents=3, seconds=3.0, reused=False, tokens=30),
        StageRecord(stage="encode", unit="other", documents=1, seconds=9.0, reused=False, tokens=5),
    ]
    models = (ModelRecord(part="retriever", name="e5", model="org/e5", billions=0.3),)
    systems = [replace(FIRST, settings={"e5": {}}, models=models), SECOND]
    results = [replace(RESULTS[0], seconds={"search": 1.5, "evaluate": 9.0}), *RESULTS[2:]]

    first, second = (
        system["costs"] for system in data(stages=tuple(stages), systems=systems, results=results)["systems"]
    )

    assert first == {
        "seconds per query": 0.75,  # 1.5 s of search over two queries
        "documents per second": 50.0,
        "tokens at services": 7030,
        "billions of parameters": 0.3,
    }
    assert set(second.values()) == {None}
