"""The commands that show finished runs: comparisons, tables for a paper, plots. Imports are inside the commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from r2med_ray.errors import ConfigError

if TYPE_CHECKING:
    from r2med_ray.reporting.columns import Column
    from r2med_ray.reporting.record import BenchmarkRecord

Format = Literal["text", "markdown", "latex", "csv"]
ResultsArgument = Annotated[str, typer.Argument(help="A folder, or a URI, that a run wrote to.")]
MeasureOption = Annotated[str | None, typer.Option(help="A measure of the run; its main measure if it is left out.")]


def compare(
    results: ResultsArgument,
    other: Annotated[str | None, typer.Argument(help="Another such folder or URI.")] = None,
    published: Annotated[bool, typer.Option("--published", help="Against the published results.")] = False,
    systems: Annotated[
        list[str] | None,
        typer.Option("--system", help="Twice: A and B. Of two runs, A is of the first and B of the other."),
    ] = None,
    measure: MeasureOption = None,
    queries: Annotated[bool, typer.Option("--queries", help="One row per query.")] = False,
    format: Annotated[
        Format, typer.Option(help="LaTeX needs booktabs; CSV has every digit, and shares 0 to 1.")
    ] = "text",
) -> None:
    """Compare the systems of a run with each other, two systems, two runs, or a run with the published figures."""
    from r2med_ray.reporting.compare import compare_with_published
    from r2med_ray.reporting.pairs import with_main_measure
    from r2med_ray.reporting.write import load_results

    if published and (other or systems or measure or queries or format != "text"):
        raise ConfigError("--published stands alone: it judges every measure that is published, as text")
    record = with_main_measure(load_results(results, all_runs=False), measure)
    if published:
        typer.echo(compare_with_published(record))
        return
    if other or systems:
        beside = load_results(other, all_runs=False) if other else record
        typer.echo(_pairs_text(record, beside, systems or [], queries, format), nl=False)
        return
    typer.echo(_queries_text(record, format) if queries else _leaderboard_text(record, format), nl=format == "text")


def report(results: ResultsArgument) -> None:
    """Write tables and page of a finished run again."""
    from r2med_ray.reporting.write import rewrite_report

    typer.echo(rewrite_report(results))


def plot(
    results: ResultsArgument,
    file: Annotated[Path, typer.Argument(help="Where the plot goes: a name that ends in .svg, .pdf or .png.")],
    systems: Annotated[
        list[str] | None,
        typer.Option("--system", help="Twice: what each query gains from A to B, in place of the systems."),
    ] = None,
    measure: MeasureOption = None,
    hard_negatives: Annotated[
        bool, typer.Option("--hard-negatives", help="All plots of hard negatives, into a folder, as SVG and PNG.")
    ] = False,
) -> None:
    """Draw the systems of a run, the gain of each query between two of them, or hard negatives. Needs matplotlib."""
    from r2med_ray.reporting.hard_negative_files import plot_hard_negatives
    from r2med_ray.reporting.pairs import pairs_of, with_main_measure
    from r2med_ray.reporting.plots import plot_gains, plot_systems
    from r2med_ray.reporting.summary import summarise
    from r2med_ray.reporting.write import load_results

    record = with_main_measure(load_results(results, all_runs=False), measure)
    if hard_negatives:
        for written in plot_hard_negatives(summarise(record), file):
            typer.echo(written)
        return
    if systems:
        plot_gains(record, pairs_of(record, record, systems)[0], file)
    else:
        plot_systems(summarise(record), file)
    typer.echo(file)


def _leaderboard_text(record: "BenchmarkRecord", format: Format) -> str:
    from r2med_ray.reporting.leaderboard_latex import leaderboard_latex
    from r2med_ray.reporting.summary import summarise
    from r2med_ray.reporting.tables import leaderboard_csv, leaderboard_markdown, leaderboard_text

    summary = summarise(record)
    match format:
        case "csv":
            return leaderboard_csv(summary, exact=True)
        case "latex":
            return leaderboard_latex(summary)
        case "markdown":
            return leaderboard_markdown(summary)
    return leaderboard_text(summary)


def _pairs_text(
    record: "BenchmarkRecord", other: "BenchmarkRecord", systems: list[str], queries: bool, format: Format
) -> str:
    from r2med_ray.reporting.pair_tables import pair_columns, query_columns
    from r2med_ray.reporting.pairs import left_out, pair_rows, pairs_of
    from r2med_ray.reporting.scales import scale_of

    pairs = pairs_of(record, other, systems)
    scale = scale_of(record, record.main_measure)
    sides = [
        f"{side}: {pairs[0].a if side == 'A' else pairs[0].b}, {of.name}" if len(pairs) == 1 else f"{side}: {of.name}"
        for side, of in (("A", record), ("B", other))
    ]
    notes = [f"{record.main_measure} {scale.words}. {'; '.join(sides)}. Δ is B minus A."]
    if lacking := left_out(record, other, pairs):
        notes.append(f"Not compared, because not every system was run on them: {', '.join(lacking)}.")
    if queries:
        by_title = {f"A {pair.a}": pair.values_a for pair in pairs} | {f"B {pair.b}": pair.values_b for pair in pairs}
        return _table(query_columns(by_title, scale), notes, format)
    notes.append(
        "p: two-sided paired randomisation test over queries, seeded; Holm: adjusted over the rows of tasks, or of "
        "means; Δ low and Δ high: 95 % bootstrap interval. Wins are queries on which B is better."
    )
    return _table(pair_columns(pair_rows(pairs), scale), notes, format)


def _queries_text(record: "BenchmarkRecord", format: Format) -> str:
    from r2med_ray.reporting.pair_tables import query_columns
    from r2med_ray.reporting.pairs import values_of
    from r2med_ray.reporting.scales import scale_of

    scale = scale_of(record, record.main_measure)
    values = {system.name: values_of(record, system.name, record.main_measure) for system in record.systems}
    return _table(query_columns(values, scale), [f"{record.name}: {record.main_measure} {scale.words}."], format)


def _table(columns: list["Column"], notes: list[str], format: Format) -> str:
    from r2med_ray.reporting.columns import csv_table, escape_markdown, markdown_table, text_table
    from r2med_ray.reporting.latex import latex_table

    match format:
        case "csv":
            return csv_table(columns, exact=True)
        case "latex":
            return latex_table(columns, notes[0], [r"needs \usepackage{booktabs}", *notes[1:]])
        case "markdown":
            return f"{markdown_table(columns)}\n{escape_markdown(' '.join(notes))}\n"
    return "\n".join([*notes, "", text_table(columns)])
