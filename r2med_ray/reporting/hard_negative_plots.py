"""Plots of hard negatives: the rank of a query's first, and maps of a query and the documents around it.

Each task, condition and system has a curve and bars. The curve is the share of queries with a hard negative among the
first k (an ECDF), over the logarithm of k from 1 to the depth. The bars count queries in the same ranges of ranks in
all plots. The last bar has those without a hard negative in their ranking, so that they are seen and not dropped.
"""

from collections.abc import Iterator
from itertools import groupby
from math import log
from typing import NamedTuple

from r2med_ray.evaluation.hard_negatives.measures import FirstRanks
from r2med_ray.evaluation.hard_negatives.neighbourhood import NeighbourhoodMap, Role
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import Summary

WIDTH, HEIGHT = 100, 40
"""The size of a plot in the units of its SVG."""

MAP = 100
"""The greater side of a map in the units of its SVG."""

_LAST: tuple[Role, ...] = ("other", "foreign", "own", "positive")
_ENDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Bar(NamedTuple):
    ranks: str
    """The range of ranks in words, e.g. `3–5`."""

    queries: int
    """How many queries have their first hard negative there."""


class FirstRankPlot(NamedTuple):
    """What a plot shows."""

    task: str
    condition: str
    system: str
    num_queries: int
    curve: str
    """The path of the curve, in SVG's notation; up is a greater share."""

    bars: tuple[Bar, ...]


class MapPoint(NamedTuple):
    """A document on a map, in the units of the map's SVG."""

    doc_id: str
    role: str
    rank: int | None
    x: str
    y: str


class MapPlot(NamedTuple):
    """What a map shows."""

    found: NeighbourhoodMap
    x: str
    y: str
    """The place of the query."""

    points: tuple[MapPoint, ...]
    """Those that matter least first, so that the others are drawn over them."""


def map_plots(record: BenchmarkRecord) -> list[MapPlot]:
    """Return the maps of a report. Both directions have the same scale, so that distances are not bent."""
    return [_map(found) for found in record.maps]


def _map(found: NeighbourhoodMap) -> MapPlot:
    across, up = [found.x, *(each.x for each in found.points)], [found.y, *(each.y for each in found.points)]
    left, top = min(across), max(up)
    scale = MAP / (max(max(across) - left, top - min(up)) or 1)
    order = sorted(found.points, key=lambda point: (_LAST.index(point.role), point.doc_id))

    def placed(x: float, y: float) -> tuple[str, str]:
        return f"{scale * (x - left):.2f}", f"{scale * (top - y):.2f}"

    points = tuple(MapPoint(each.doc_id, each.role, each.rank, *placed(each.x, each.y)) for each in order)
    return MapPlot(found, *placed(found.x, found.y), points)


def first_rank_plots(summary: Summary) -> list[FirstRankPlot]:
    """Return the plots of a report, in the order of its tables."""
    depth = summary.record.depth
    return [
        FirstRankPlot(
            task=row.task,
            condition=row.condition,
            system=row.system,
            num_queries=row.first_ranks.num_queries,
            curve=_curve(row.first_ranks, depth),
            bars=tuple(_bars(row.first_ranks, depth)),
        )
        for row in summary.hard_negatives
        if row.first_ranks is not None
    ]


def _curve(found: FirstRanks, depth: int) -> str:
    """Return a step function from the left to the right edge, whose end leaves out the queries beyond the depth."""
    path, below = f"M0 {HEIGHT}", 0
    for rank, same in groupby(found.ranks):
        below += len(list(same))
        across = WIDTH * log(rank) / log(depth) if depth > 1 else 0
        path += f"H{across:.2f}V{HEIGHT * (1 - below / found.num_queries):.2f}"
    return f"{path}H{WIDTH}"


def _bars(found: FirstRanks, depth: int) -> Iterator[Bar]:
    first = 1
    for end in (*(end for end in _ENDS if end < depth), depth):
        count = sum(first <= rank <= end for rank in found.ranks)
        yield Bar(str(end) if first == end else f"{first}–{end}", count)
        first = end + 1
    yield Bar(f"beyond {depth}", found.num_queries - len(found.ranks))
