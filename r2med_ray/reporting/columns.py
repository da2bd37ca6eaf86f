"""A small table as a list of columns, written as Markdown, plain text or CSV; `latex` writes it as LaTeX."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

_FORMULA = re.compile(r"[ \xa0]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""The beginning of a cell that a spreadsheet may compute. Blanks before it don't help, and neither do wide forms."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?%?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its title, its values and how they are written."""

    title: str
    values: Sequence[Any]
    """One value per row; None if the row has no value. A sort goes by these values."""

    write: Callable[[Any], str] = str
    second_lines: Sequence[str] = ()
    """A second line of each cell, which Markdown shows; a row of text or of CSV has none."""

    is_number: bool = True
    highest_is_best: bool = False
    marks: Sequence[str] = ()
    """One mark per row, such as `†`, which LaTeX tables show behind the value; empty for a column without marks."""

    @property
    def texts(self) -> list[str]:
        return [self.write(value) for value in self.values]

    @property
    def best(self) -> frozenset[str]:
        """The text of the highest value, or nothing if fewer than two values can be compared.

        Values with the same text are equally good.
        """
        values = [value for value in self.values if value is not None] if self.highest_is_best else []
        return frozenset([self.write(max(values))] if len(values) > 1 else [])


def markdown_table(columns: Sequence[Column]) -> str:
    """Return a pipe table. The best value of a column is bold, and no name can break a cell."""
    lines = [
        [escape_markdown(column.title) for column in columns],
        ["---:" if column.is_number else ":---" for column in columns],
        *zip(*(_markdown_cells(column) for column in columns), strict=True),
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def text_table(columns: Sequence[Column]) -> str:
    """Return the table for a terminal or a log, as wide as it needs to be."""
    table = RichTable(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(Text(column.title), justify="right" if column.is_number else "left")
    for cells in zip(*(column.texts for column in columns), strict=True):
        table.add_row(*map(Text, cells))
    console = Console(file=io.StringIO(), width=10_000, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines() if line.strip())


def csv_table(columns: Sequence[Column], *, exact: bool = False) -> str:
    """Return the table as RFC 4180 asks for, but with \\n line ends. An absent value is an empty cell.

    A cell that a spreadsheet would compute as a formula begins with an apostrophe (OWASP, "CSV Injection"). Numbers
    stay numbers.

    Args:
        columns: the columns.
        exact: write floats with every digit, a share between 0 and 1, in place of how the columns write them.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_no_formula(column.title) for column in columns)
    writer.writerows(zip(*(_csv_cells(column, exact) for column in columns), strict=True))
    return out.getvalue()


def escape_markdown(text: str) -> str:
    """Return a text escaped so that Markdown, and HTML made from it, show it unchanged on one line."""
    return re.sub(r"([\\`*_\[\]<>#|~&$])", r"\\\1", " ".join(text.split()))


def _markdown_cells(column: Column) -> list[str]:
    best = column.best
    cells = [f"**{text}**" if text in best else escape_markdown(text) for text in column.texts]
    if not column.second_lines:
        return cells
    second = map(escape_markdown, column.second_lines)
    return [f"{cell}<br>{line}" for cell, line in zip(cells, second, strict=True)]


def _csv_cells(column: Column, exact: bool) -> list[str]:
    return [
        ""
        if value is None
        else _no_formula(repr(float(value)) if exact and isinstance(value, float) else column.write(value))
        for value in column.values
    ]


def _no_formula(cell: str) -> str:
    cell = cell.replace("\r\n", "\n").replace("\r", "\n")  # the csv module leaves a lone \r without quotes
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell
