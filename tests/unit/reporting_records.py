"""A benchmark whose figures a person can work out, for the tests of reporting.

Alpha   q1 → d1                  first: d1        second: x d1
        q2 → d2                  first: x d2      second: nothing
Beta    q3 → d3, d4, d5          first: d3        second: x
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.reporting.record import BenchmarkRecord, ResultRecord, StageRecord, SystemRecord, TaskRecord
from r2med_ray.types import QueryId, Run, ScoredDoc

MEASURES = ("RR", "R@1")

ALPHA = TaskRecord(
    name="Alpha",
    suite="Greek",
    revision="abc123",
    qrels={"q1": {"d1": 1}, "q2": {"d2": 1}},
    counts={"documents": 1234, "queries": 2},
)
BETA = TaskRecord(name="Beta", suite="Greek", revision="def456", qrels={"q3": {"d3": 1, "d4": 1, "d5": 1}})

FIRST = SystemRecord(name="first", description="bm25 → maxsim@20")
SECOND = SystemRecord(name="second", description="bm25")

STAGES = (
    StageRecord(stage="encode", unit="Alpha with bge", documents=12340, seconds=2.0, reused=False),
    StageRecord(stage="encode", unit="Beta with bge", documents=10, seconds=0.5, reused=True),
)


def run(tag: str, **rankings: str) -> Run:
    """Return a run made from texts such as `x d1`, which name the documents with the best first."""
    return Run(
        tag=tag,
        rankings={
            query_id: tuple(ScoredDoc(doc_id, float(-rank)) for rank, doc_id in enumerate(documents.split()))
            for query_id, documents in rankings.items()
        },
    )


def result(system: str, task: TaskRecord, answers: dict[QueryId, str], **fields: Any) -> ResultRecord:
    """Return a measured result."""
    ranked = run(system, **answers)
    return ResultRecord(
        system=system,
        task=task.name,
        run=ranked,
        evaluation=evaluate(ranked, task.qrels, [Measure.parse(name) for name in MEASURES]),
        **fields,
    )


RESULTS = (
    result("first", ALPHA, {"q1": "d1", "q2": "x d2"}, flagged={"empty": ("q1",), "cut": ("q1", "q2")}),
    result("first", BETA, {"q3": "d3"}, seconds={"search": 0.5, "rerank": 1.25}),
    result("second", ALPHA, {"q1": "x d1"}),
    result("second", BETA, {"q3": "x"}, artifact_names={"run": "runs/0123"}),
)


def record(
    *,
    tasks: Sequence[TaskRecord] = (ALPHA, BETA),
    systems: Sequence[SystemRecord] = (FIRST, SECOND),
    results: Sequence[ResultRecord] = RESULTS,
    **fields: Any,
) -> BenchmarkRecord:
    """Return the benchmark, or a variant of it."""
    values: dict[str, Any] = {
        "name": "greek",
        "config": {"name": "greek", "tasks": ["Alpha", "Beta"]},
        "measures": MEASURES,
        "main_measure": "RR",
        "baseline": None,
        "depth": 100,
        "seed": 7,
        "stages": STAGES,
        "versions": {"python": "3.11.9"},
        "started": "2026-11-27T10:00:00+00:00",
        "finished": "2026-11-27T10:05:00+00:00",
    }
    return BenchmarkRecord(tasks=tuple(tasks), systems=tuple(systems), results=tuple(results), **(values | fields))


def files(folder: Path) -> dict[str, bytes]:
    """Return relative path → content of every file in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
