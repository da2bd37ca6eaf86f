"""What the page's script works with, as plain values: names, means, costs. Values of queries are in `chunks`."""

from collections.abc import Mapping

from r2med_ray.first_stages.preparation import STAGES
from r2med_ray.reporting.chunks import task_scripts
from r2med_ray.reporting.part_records import ENCODE_QUERIES
from r2med_ray.reporting.record import BenchmarkRecord, ResultRecord, SystemRecord
from r2med_ray.reporting.rewriting_gains import parts_of
from r2med_ray.reporting.scales import POINTS, scale_of
from r2med_ray.reporting.summary import Summary
from r2med_ray.storage.keys import Json


def page_data(summary: Summary) -> Json:
    """Return what the script shows when a reader chooses other tasks, another measure or another baseline.

    Systems and tasks are numbered by their position in the record. A figure that is absent is None.
    """
    record, scripts = summary.record, task_scripts(summary.record)
    results = [record.results_of(system.name) for system in record.systems]
    return {
        "main": record.main_measure,
        "baseline": record.baseline,
        "measures": [_measure(record, name) for name in record.measures],
        "tasks": [
            {"name": task.name, "isCondition": task.is_condition, "script": scripts.get(task.name)}
            for task in record.tasks
        ],
        "systems": [_system(record, system, found) for system, found in zip(record.systems, results, strict=True)],
        "order": [record.systems.index(row.system) for row in summary.rows],
        "values": {
            measure: [[_mean(found.get(task.name), measure) for task in record.tasks] for found in results]
            for measure in record.measures
        },
        "recall": [
            [found[task.name].recall_by_depth if task.name in found else None for task in record.tasks]
            for found in results
        ],
    }


def _measure(record: BenchmarkRecord, name: str) -> Json:
    scale = scale_of(record, name)
    return {"name": name, "factor": scale.factor, "decimals": 2 if scale is POINTS else 4}


def _system(record: BenchmarkRecord, system: SystemRecord, found: Mapping[str, ResultRecord]) -> Json:
    parts = parts_of(record, system.name)
    return {
        "name": system.name,
        "description": system.description,
        "rewrites": bool(parts.get("rewriter")),
        "reranks": bool(parts.get("reranker") or parts.get("rerankers")),
        "costs": {
            "seconds per query": _seconds_per_query(system, found),
            "documents per second": _documents_per_second(system),
            "tokens at services": sum(part.tokens for part in system.computed) or None,
            "dollars at services": _dollars(system),
            "billions of parameters": sum(model.billions or 0 for model in system.models) or None,
        },
    }


def _dollars(system: SystemRecord) -> float | None:
    """Return the price of all that services did for a system; None if there was none, or a part of it is unknown."""
    paid = [part.usd for part in system.computed if part.tokens or part.usd is not None]
    known = [usd for usd in paid if usd is not None]
    return float(f"{sum(known):.3g}") if known and len(known) == len(paid) else None


def _mean(result: ResultRecord | None, measure: str) -> float | None:
    return round(result.evaluation.means[measure], 6) if result else None


def _seconds_per_query(system: SystemRecord, found: Mapping[str, ResultRecord]) -> float | None:
    """Return the seconds of a query in all stages but the evaluation; None if no stage took any.

    Reading the query is a stage of its own, whose seconds are those of the time when the vector was made.
    """
    reading = sum(
        part.seconds / part.items for part in system.computed if part.arrow == ENCODE_QUERIES and part.items
    )
    seconds = sum(
        taken for result in found.values() for stage, taken in result.seconds.items() if stage != "evaluate"
    )
    queries = sum(len(result.evaluation.per_query) for result in found.values())
    return float(f"{seconds / queries + reading:.3g}") if seconds and queries else None


def _documents_per_second(system: SystemRecord) -> float | None:
    """Return the rate of one worker of the slowest retriever, when it read documents; None if that is unknown."""
    rates = [
        part.items_per_second
        for part in system.computed
        if part.arrow in STAGES.values() and part.items_per_second is not None
    ]
    return float(f"{min(rates):.3g}") if rates else None
