"""The plots of hard negatives as files, each as SVG and as PNG, drawn by matplotlib, which is an extra.

first-rank-<task>-<condition>       for each system the share of queries with an own hard negative among the first k
map-<task>-<system>-<query>         a query and the documents around it
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.hard_negatives.measures import FirstRanks
from r2med_ray.evaluation.hard_negatives.neighbourhood import NeighbourhoodMap
from r2med_ray.reporting.file_names import file_names
from r2med_ray.reporting.plots import drawing, plain
from r2med_ray.reporting.summary import Summary

ENDINGS = (".svg", ".png")
COLOURS = {"other": "#bbbbbb", "foreign": "#e69f00", "own": "#d55e00", "positive": "#009e73"}
"""Role of a document → colour, of Okabe and Ito's palette. Roles are drawn in this order."""

_WORDS = {
    "other": "others",
    "foreign": "others' hard negatives",
    "own": "own hard negatives",
    "positive": "positives",
}


class Draw(Protocol):
    """Draws on matplotlib's axes."""

    def __call__(self, axes: Any) -> None: ...


class _Plot(NamedTuple):
    name: str
    height: float
    draw: Draw


def plot_hard_negatives(summary: Summary, folder: Path) -> list[Path]:
    """Write every plot of a benchmark's hard negatives, and return the files.

    Raises:
        ConfigError: the benchmark has none, there is no such folder, or matplotlib isn't installed.
    """
    plots = [*_first_ranks(summary), *_maps(summary)]
    if not plots:
        raise ConfigError(f"{summary.record.name}: it has no hard negatives to draw")
    names = file_names(plot.name for plot in plots)
    written = []
    for plot in plots:
        for ending in ENDINGS:
            written.append(folder / f"{names[plot.name]}{ending}")
            with drawing(written[-1], height=plot.height) as axes:
                plot.draw(axes)
    return written


def _first_ranks(summary: Summary) -> Iterator[_Plot]:
    found: dict[tuple[str, str], dict[str, FirstRanks]] = {}
    for row in summary.hard_negatives:
        if row.first_ranks is not None:
            found.setdefault((row.task, row.condition), {})[row.system] = row.first_ranks
    depth = summary.record.depth
    for (task, condition), of_systems in found.items():

        def draw(axes: Any, of_systems: dict[str, FirstRanks] = of_systems) -> None:
            for system, ranks in of_systems.items():
                shares = [(number + 1) / ranks.num_queries for number in range(len(ranks.ranks))]
                label = f"{system} (n = {ranks.num_queries}, {100 * ranks.censored:.0f} % beyond {depth})"
                axes.step(
                    [1, *ranks.ranks, depth], [0, *shares, (shares or [0])[-1]], where="post", label=plain(label)
                )
            axes.set_xscale("log")
            axes.set_ylim(0, 1)
            axes.set_xlabel("k")
            axes.set_ylabel("queries with an own hard negative\namong the first k")
            axes.legend(fontsize=6)

        yield _Plot(f"first-rank-{task}-{condition}", 3.0, draw)


def _maps(summary: Summary) -> Iterator[_Plot]:
    for found in summary.record.maps:

        def draw(axes: Any, found: NeighbourhoodMap = found) -> None:
            for role, colour in COLOURS.items():
                points = [point for point in found.points if point.role == role]
                across, up = [point.x for point in points], [point.y for point in points]
                axes.plot(across, up, "o", ms=3, color=colour, label=_WORDS[role])
                for point in points:
                    if point.rank and role != "other":
                        axes.annotate(str(point.rank), (point.x, point.y), fontsize=6)
            axes.plot([found.x], [found.y], "x", color="#000000", label=plain(f"query {found.query_id}"))
            axes.set_aspect("equal", adjustable="datalim")
            for write, share in zip((axes.set_xlabel, axes.set_ylabel), found.explained, strict=True):
                write(f"{100 * share:.1f} % of the differences")
            axes.legend(fontsize=6)

        yield _Plot(f"map-{found.task}-{found.system}-{found.query_id}", 4.0, draw)
