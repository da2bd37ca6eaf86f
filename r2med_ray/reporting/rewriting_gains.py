"""What rewriting changes: each system with a rewriter beside the system that is the same without it."""

from collections.abc import Mapping

from r2med_ray.reporting.columns import Column
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.scales import scale_of
from r2med_ray.reporting.summary import Summary, SystemSummary
from r2med_ray.storage.keys import Json

_OF_NO_PART = {"name", "rewriter"}


def parts_of(record: BenchmarkRecord, system: str) -> Mapping[str, Json]:
    """Return what the benchmark file says of a system; nothing if the record doesn't have it."""
    entries = record.config.get("systems", ())
    return next((entry for entry in entries if isinstance(entry, Mapping) and entry.get("name") == system), {})


def rewriting_gains(summary: Summary) -> list[Column]:
    """Return one row per system whose plain system was run too, best mean gain first; nothing without such a pair."""
    record, rows = summary.record, {row.system.name: row for row in summary.rows}
    pairs = [(rows[name], rows[plain]) for name, plain in _pairs(record) if name in rows and plain in rows]
    if not pairs:
        return []
    write = scale_of(record, record.main_measure).difference
    mean = [gain(row.means.get(record.main_measure), plain.means.get(record.main_measure)) for row, plain in pairs]
    order = sorted(range(len(pairs)), key=lambda place: -(mean[place] or 0))
    pairs, mean = [pairs[place] for place in order], [mean[place] for place in order]

    def on(task: str) -> list[float | None]:
        return [gain(row.scores.get(task), plain.scores.get(task)) for row, plain in pairs]

    return [
        Column(title="With rewriting", values=[_named(row) for row, _ in pairs], is_number=False),
        Column(title="Without", values=[_named(plain) for _, plain in pairs], is_number=False),
        Column(title="Mean", values=mean, write=write),
        *(Column(title=task.name, values=on(task.name), write=write) for task in record.leaderboard_tasks),
    ]


def _pairs(record: BenchmarkRecord) -> list[tuple[str, str]]:
    """Return the names of systems with a rewriter, each with the system of the same other parts without one."""
    entries = [parts_of(record, system.name) for system in record.systems]
    plain = [entry for entry in entries if entry and not entry.get("rewriter")]
    return [
        (entry["name"], same["name"])
        for entry in entries
        if entry.get("rewriter")
        for same in plain
        if _others(entry) == _others(same)
    ]


def _others(entry: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in entry.items() if key not in _OF_NO_PART}


def gain(value: float | None, without: float | None) -> float | None:
    """Return by how much a value is greater than another; None if one of them is missing."""
    return None if value is None or without is None else value - without


def _named(row: SystemSummary) -> str:
    return row.system.name
