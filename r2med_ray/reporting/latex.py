"""A small table in LaTeX, with the rules of the package `booktabs`."""

from collections.abc import Sequence

from r2med_ray.reporting.columns import Column
from r2med_ray.reporting.formats import NOTHING

_ESCAPED = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "[": "{[}",
        "*": "{*}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        NOTHING: "--",
        "−": "$-$",
        "×": r"$\times$",
        "→": r"$\rightarrow$",
        "Δ": r"$\Delta$",
        "†": r"$^{\dagger}$",
    }
)
"""Character → what pdflatex sets as this character. Other letters are left as they are, in UTF-8. At the
beginning of a row, a bare `[` or `*` would belong to the `\\\\` before it."""


def latex_table(columns: Sequence[Column], caption: str, notes: Sequence[str] = ()) -> str:
    """Return a `table` that needs `\\usepackage{booktabs}`. The best value of a column is bold.

    Args:
        columns: the columns; `Column.marks` are written behind the cells.
        caption: plain text.
        notes: comments above the table, which the paper doesn't show.
    """
    rows = zip(*(_cells(column) for column in columns), strict=True)
    return "\n".join(
        [
            *(f"% {' '.join(note.split())}" for note in notes),
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(caption)}}}",
            rf"\begin{{tabular}}{{{''.join('r' if column.is_number else 'l' for column in columns)}}}",
            r"\toprule",
            _row([escape_latex(column.title) for column in columns]),
            r"\midrule",
            *map(_row, rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def escape_latex(text: str) -> str:
    """Return a text as LaTeX that shows it on one line."""
    return " ".join(text.split()).translate(_ESCAPED)


def _row(cells: Sequence[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _cells(column: Column) -> list[str]:
    best, marks = column.best, column.marks or [""] * len(column.values)
    return [
        (rf"\textbf{{{escape_latex(text)}}}" if text in best else escape_latex(text)) + escape_latex(mark)
        for text, mark in zip(column.texts, marks, strict=True)
    ]
