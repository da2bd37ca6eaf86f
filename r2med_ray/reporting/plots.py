"""Plots for a paper, as SVG, PDF or PNG, drawn by matplotlib, which is an extra."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from r2med_ray.errors import ConfigError
from r2med_ray.reporting.pairs import Pair
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.scales import scale_of
from r2med_ray.reporting.summary import Summary

FORMATS = (".svg", ".pdf", ".png")
_UNDATED: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""Ending → the entries that matplotlib leaves out, so that the same figures give the same bytes."""

COLOURS = {"better": "#0072b2", "worse": "#d55e00", "neutral": "#555555"}
"""Of Okabe and Ito's palette, whose colours people with any colour vision can tell apart."""


def plot_systems(summary: Summary, file: Path) -> None:
    """Draw one dot per system: its difference from the baseline with the 95 % interval, or its mean without one.

    Systems that lack a task, which have no mean, are left out.

    Raises:
        ConfigError: see `drawing`; or no system has run every task.
    """
    record = summary.record
    factor = scale_of(record, record.main_measure).factor
    rows = [row for row in reversed(summary.rows) if row.means]
    if not rows:
        raise ConfigError(f"{record.name}: no system has run every task, so there is no mean to draw")
    is_compared = any(row.comparison for row in rows)
    if is_compared:
        rows = [row for row in rows if row.comparison]
    with drawing(file, height=0.6 + 0.28 * len(rows)) as axes:
        for position, row in enumerate(rows):
            found = row.comparison
            value = factor * (found.difference if found else row.means[record.main_measure])
            colour = "neutral" if not row.is_significant else "better" if value > 0 else "worse"
            if found and found.interval:
                axes.plot([factor * end for end in found.interval], [position] * 2, color=COLOURS[colour], lw=1)
            axes.plot([value], [position], "o", color=COLOURS[colour], ms=4, fillstyle="full" if found else "none")
        axes.set_yticks(range(len(rows)), [plain(row.system.name) for row in rows])
        if is_compared:
            axes.axvline(0, color=COLOURS["neutral"], lw=0.5)
        words = (
            f"{record.main_measure} minus {record.baseline}, 95 % interval" if is_compared else record.main_measure
        )
        axes.set_xlabel(plain(words))


def plot_gains(record: BenchmarkRecord, pair: Pair, file: Path) -> None:
    """Draw one bar per query of the tasks of the mean: how much B is better than A, in descending order.

    Raises:
        ConfigError: see `drawing`.
    """
    factor = scale_of(record, record.main_measure).factor
    gains = sorted((factor * gain for gain in pair.gains(pair.averaged)), reverse=True)
    with drawing(file, height=2.2) as axes:
        colours = [COLOURS["better" if gain > 0 else "worse"] for gain in gains]
        axes.bar(range(len(gains)), gains, width=1.0, color=colours)
        axes.axhline(0, color=COLOURS["neutral"], lw=0.5)
        axes.set_xlabel(f"{len(gains)} queries, sorted")
        axes.set_ylabel(plain(f"{record.main_measure}: {pair.b} minus {pair.a}"))


@contextmanager
def drawing(file: Path, *, height: float) -> Iterator[Any]:
    """Yield matplotlib's axes, which are then written. The same figures give the same bytes.

    Raises:
        ConfigError: the file's name has another ending, its folder isn't there, or matplotlib isn't installed.
    """
    if file.suffix not in FORMATS:
        raise ConfigError(f"plot {file}: expected a name that ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"plot {file}: there is no folder {file.absolute().parent}")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("plots need matplotlib: pip install 'r2med-ray[plots]'") from error
    with matplotlib.rc_context({"svg.hashsalt": "r2med", "svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 8}):
        figure = Figure(figsize=(5.5, height), layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        yield axes
        figure.savefig(file, metadata=_UNDATED[file.suffix], dpi=300)


def plain(text: str) -> str:
    """Return a text in which a dollar sign doesn't start a formula of matplotlib's."""
    return text.replace("$", r"\$")
