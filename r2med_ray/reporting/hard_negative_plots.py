"""Plots of the rank of the first own hard negative: a curve and bars for each task, condition and system.

The curve is the share of queries with a hard negative among the first k (an ECDF), over the logarithm of k from 1 to
the depth. The bars count queries in the same ranges of ranks in all plots. The last bar has those without a hard
negative in their ranking, so that they are seen and not dropped.
"""

from collections.abc import Iterator
from itertools import groupby
from math import log
from typing import NamedTuple

from r2med_ray.evaluation.hard_negatives.measures import FirstRanks
from r2med_ray.reporting.summary import Summary

WIDTH, HEIGHT = 100, 40
"""The size of a plot in the units of its SVG."""

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
