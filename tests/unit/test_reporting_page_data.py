"""What the page's script is given: figures by position, and what each system cost."""

from dataclasses import replace
from typing import Any

from r2med_ray.reporting.page_data import page_data
from r2med_ray.reporting.part_records import ModelRecord, PartRecord
from r2med_ray.reporting.summary import summarise
from tests.unit.reporting_records import FIRST, RESULTS, SECOND, STAGES, record


def data(**fields: Any) -> Any:
    return page_data(summarise(record(**fields)))


def test_figures_are_by_measure_system_and_task():
    found = data()

    assert found["values"]["RR"] == [[0.75, 1.0], [0.25, 0.0]]
    assert found["order"] == [0, 1]
    assert [task["script"] for task in found["tasks"]] == ["queries/Alpha.js", "queries/Beta.js"]


def test_a_system_that_has_not_run_a_task_has_no_figure_there():
    assert data(results=RESULTS[1:])["values"]["RR"][0] == [None, 1.0]


def test_costs_are_those_of_the_time_when_all_that_a_system_uses_was_made():
    computed = (
        PartRecord(arrow="encode", part="e5", items=100, seconds=2.0, tokens=7000, usd=0.25),
        PartRecord(arrow="tokenize", part="bm25", items=100, seconds=0.5),
        PartRecord(arrow="encode queries", part="e5", items=3, seconds=3.0, tokens=30, usd=0.5),
    )
    models = (ModelRecord(part="retriever", name="e5", model="org/e5", billions=0.3),)
    systems = [replace(FIRST, computed=computed, models=models), SECOND]
    results = [replace(RESULTS[0], seconds={"search": 1.5, "evaluate": 9.0}), *RESULTS[2:]]

    first, second = (
        system["costs"] for system in data(stages=STAGES[1:], systems=systems, results=results)["systems"]
    )

    assert first == {
        "seconds per query": 1.75,  # 1.5 s of search over two queries, and 3.0 s of reading three
        "documents per second": 50.0,  # the slower of 100 / 2.0 and 100 / 0.5
        "tokens at services": 7030,
        "dollars at services": 0.75,
        "billions of parameters": 0.3,
    }
    assert set(second.values()) == {None}


def test_a_system_of_which_one_service_has_no_known_price_has_no_dollars():
    computed = (
        PartRecord(arrow="encode", part="e5", items=100, seconds=2.0, tokens=7000, usd=0.25),
        PartRecord(arrow="write", part="writer", items=3, seconds=3.0, tokens=30),
    )

    costs = data(systems=[replace(FIRST, computed=computed), SECOND])["systems"][0]["costs"]

    assert costs["dollars at services"] is None
    assert costs["tokens at services"] == 7030


def test_a_cascade_reranks_as_one_reranker_does():
    systems = [{"name": "first", "rerankers": [{"model": "a"}, {"model": "b"}]}, {"name": "second", "reranker": None}]

    assert [system["reranks"] for system in data(config={"systems": systems})["systems"]] == [True, False]
