"""A table is written as Markdown, plain text and CSV."""

import csv
import io

import pytest

from r2med_ray.reporting.columns import Column, csv_table, escape_markdown, markdown_table, text_table
from r2med_ray.reporting.formats import points

NAMES = Column(title="System", values=["a|b", "<script>"], is_number=False)
SCORES = Column(title="nDCG@10", values=[0.5, None], write=points, highest_is_best=True)


def test_markdown_shows_names_as_they_are():
    assert markdown_table([NAMES, SCORES]) == (
        "| System | nDCG@10 |\n| :--- | ---: |\n| a\\|b | 50.00 |\n| \\<script\\> | – |\n"
    )


def test_markdown_keeps_a_name_on_one_line():
    assert escape_markdown("two\nlines") == "two lines"
    assert escape_markdown("*b* _i_ `c` [l](u) &amp; ~s~ #1 $x$") == (
        "\\*b\\* \\_i\\_ \\`c\\` \\[l\\](u) \\&amp; \\~s\\~ \\#1 \\$x\\$"
    )


def test_the_best_of_a_column_is_bold_with_all_that_reads_the_same():
    scores = Column(title="x", values=[0.50001, 0.50002, 0.4], write=points, highest_is_best=True)

    assert markdown_table([scores]).splitlines()[2:] == ["| **50.00** |", "| **50.00** |", "| 40.00 |"]


def test_one_value_alone_is_not_the_best():
    assert SCORES.best == frozenset()


def test_csv_reads_back_whatever_the_names():
    names = ['"quoted" & co', "a,b", "two\nlines"]
    text = csv_table([Column(title="System", values=names, is_number=False)])

    assert [row[0] for row in csv.reader(io.StringIO(text))] == ["System", *names]


def test_csv_leaves_a_cell_empty_where_there_is_nothing():
    assert csv_table([NAMES, SCORES]) == "System,nDCG@10\na|b,50.00\n<script>,\n"


def test_plain_text_lines_up_and_is_never_cut():
    long_name = "[bold]" + "x" * 200
    table = text_table([Column(title="System", values=[long_name, "b"], is_number=False), SCORES])

    header, _, first, second = table.splitlines()
    assert long_name in first
    assert header.endswith("nDCG@10")
    assert first.endswith("50.00")
    assert len(header) == len(first) == len(second)


@pytest.mark.parametrize(
    "name",
    [
        "=1+1",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "-bm25",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "＝1+1",
        "-",
        "--1",
        "+1 2",
    ],
)
def test_a_cell_of_a_csv_file_never_begins_a_formula(name: str):
    text = csv_table([Column(title=name, values=[name])])

    shown = "'" + name.replace("\r", "\n")
    assert list(csv.reader(io.StringIO(text, newline=""))) == [[shown], [shown]]


@pytest.mark.parametrize("number", ["-1.25", "+0.5", "-3", "-1e-05", "-.5", "-12%", "0.25", ""])
def test_a_number_of_a_csv_file_stays_a_number(number: str):
    assert csv_table([Column(title="n", values=[number])]).splitlines()[1].strip('"') == number
