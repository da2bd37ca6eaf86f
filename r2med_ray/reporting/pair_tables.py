"""Tables of two systems beside each other, and of the values of single queries."""

from collections.abc import Mapping, Sequence

from r2med_ray.evaluation.significance import TaskValues
from r2med_ray.reporting.columns import Column
from r2med_ray.reporting.formats import p_value
from r2med_ray.reporting.pairs import PairRow
from r2med_ray.reporting.scales import Scale


def pair_columns(rows: Sequence[PairRow], scale: Scale) -> list[Column]:
    """Return one row per pair and task: both figures, their difference and its interval, p, and counts of queries."""
    compared = [row.comparison for row in rows]
    intervals = [found.interval or (None, None) for found in compared]
    pairs = [row.pair.a if row.pair.a == row.pair.b else f"{row.pair.a} → {row.pair.b}" for row in rows]
    return [
        *([Column(title="System", values=pairs, is_number=False)] if len(set(pairs)) > 1 else []),
        Column(title="Task", values=[row.task for row in rows], is_number=False),
        Column(title="A", values=[row.mean_a for row in rows], write=scale.value),
        Column(title="B", values=[row.mean_b for row in rows], write=scale.value),
        Column(title="Δ", values=[found.difference for found in compared], write=scale.difference),
        Column(title="Δ low", values=[low for low, _ in intervals], write=scale.difference),
        Column(title="Δ high", values=[high for _, high in intervals], write=scale.difference),
        Column(title="p", values=[found.p_value for found in compared], write=p_value),
        Column(title="p Holm", values=[found.p_adjusted for found in compared], write=p_value),
        Column(title="Wins", values=[row.wins for row in rows]),
        Column(title="Ties", values=[row.ties for row in rows]),
        Column(title="Losses", values=[row.losses for row in rows]),
    ]


def query_columns(values: Mapping[str, TaskValues], scale: Scale) -> list[Column]:
    """Return one row per query that a mean is over, with the value of each system, and Δ if there are two systems.

    Args:
        values: title of a system's column → task → query_id → value. A system without a value has an empty cell.
        scale: of the measure.
    """
    rows = list(
        dict.fromkeys(
            (task, query_id) for tasks in values.values() for task, found in tasks.items() for query_id in found
        )
    )
    columns = [
        Column(
            title=title,
            values=[tasks.get(task, {}).get(query_id) for task, query_id in rows],
            write=scale.value,
        )
        for title, tasks in values.items()
    ]
    if len(columns) == 2:
        both = zip(columns[0].values, columns[1].values, strict=True)
        gains = [None if a is None or b is None else b - a for a, b in both]
        columns.append(Column(title="Δ", values=gains, write=scale.difference))
    return [
        Column(title="Task", values=[task for task, _ in rows], is_number=False),
        Column(title="Query", values=[query_id for _, query_id in rows], is_number=False),
        *columns,
    ]
