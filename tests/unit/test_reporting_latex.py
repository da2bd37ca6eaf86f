"""LaTeX tables are right by their structure: as many cells as columns, and no text that LaTeX would read."""

import re
from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.reporting.columns import Column
from r2med_ray.reporting.latex import escape_latex, latex_table
from r2med_ray.reporting.leaderboard_latex import leaderboard_latex
from r2med_ray.reporting.record import TaskRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import write_report
from tests.unit.reporting_records import FIRST, SECOND, record, result

MANY = TaskRecord(name="a_b & 50%", suite="Greek", revision="", qrels={f"q{n}": {"d": 1} for n in range(12)})
HOSTILE = r"a_b & 50% #1 $x$ {y} ~ ^ \end{table}"


def structure(text: str) -> tuple[str, list[list[str]]]:
    """Return the columns and the cells of a table. A cell boundary is an `&` that is not escaped."""
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}\n\\toprule\n(.*)\\bottomrule\n\\end\{tabular\}", text, re.S)
    assert columns
    rows = [line for line in columns[2].splitlines() if line != r"\midrule"]
    assert all(line.endswith(r" \\") for line in rows)
    return columns[1], [re.split(r"(?<!\\)&", line.removesuffix(r"\\")) for line in rows]


def test_every_special_character_is_escaped():
    assert escape_latex(HOSTILE) == (
        r"a\_b \& 50\% \#1 \$x\$ \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{}end\{table\}"
    )
    assert escape_latex("−1.00\n– <0.5>") == r"$-$1.00 -- \textless{}0.5\textgreater{}"


def test_a_table_has_as_many_cells_as_columns_whatever_its_texts():
    names = Column(title=HOSTILE, values=[HOSTILE, "b"], is_number=False)
    figures = Column(title="x", values=[0.5, 1.0], write="{:.2f}".format, highest_is_best=True, marks=["†", ""])

    text = latex_table([names, figures], HOSTILE, ["two\nlines"])
    columns, rows = structure(text)
    assert columns == "lr"
    assert [len(row) for row in rows] == [2, 2, 2]
    assert [row[1].strip() for row in rows] == ["x", r"0.50$^{\dagger}$", r"\textbf{1.00}"]
    assert text.startswith("% two lines\n\\begin{table}\n")
    # Braces that are not escaped are balanced, and the environments are closed once.
    bare = re.sub(r"\\[{}\\]", "", text)
    assert bare.count("{") == bare.count("}")
    assert re.findall(r"\\(?:begin|end)\{\w+\}", text) == [
        r"\begin{table}", r"\begin{tabular}", r"\end{tabular}", r"\end{table}"
    ]  # fmt: skip


def test_figures_that_differ_from_the_baseline_are_marked_and_the_best_is_bold(tmp_path: Path):
    systems = (FIRST, SECOND, replace(FIRST, name="near"))
    results = (
        result("first", MANY, dict.fromkeys(MANY.qrels, "d")),
        result("second", MANY, dict.fromkeys(MANY.qrels, "x d")),
        # One query of twelve differs from `second`, so every way to swap its label is as far from 0.
        result("near", MANY, {query_id: "d" if query_id == "q0" else "x d" for query_id in MANY.qrels}),
    )
    marked = record(tasks=(MANY,), systems=systems, results=results, baseline="second")

    columns, rows = structure(leaderboard_latex(summarise(marked)))
    assert columns == "lrr"
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["System", "Mean", r"a\_b \& 50\%"],
        # 2 of 4096 ways to swap twelve labels are as far from 0: p = 0.0005, times 2 systems.
        ["first", r"\textbf{100.00}$^{\dagger}$", r"\textbf{100.00}$^{\dagger}$"],
        # (1 + 11 / 2) / 12
        ["near", "54.17", "54.17"],
        ["second", "50.00", "50.00"],
    ]
    write_report(summarise(marked), tmp_path / "report")
    shown = CliRunner().invoke(app, ["compare", str(tmp_path / "report"), "--format", "latex"]).stdout
    assert structure(shown) == (columns, rows)
    assert "differs from second with p \\textless{} 0.05 (two-sided paired randomisation" in shown


def test_without_a_baseline_nothing_is_marked_or_explained():
    assert "dagger" not in leaderboard_latex(summarise(record()))


def test_what_begins_a_row_is_not_read_as_an_option_of_the_line_before():
    assert escape_latex("[x]*") == "{[}x]{*}"
