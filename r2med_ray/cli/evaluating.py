"""The command that scores a run file from anywhere, in our way or in trec_eval's. Imports are inside the command."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from r2med_ray.errors import ConfigError


def evaluate(
    run_file: Annotated[Path, typer.Option("--run", help="A TREC run file, or lines of query, document and rank.")],
    qrels_file: Annotated[Path, typer.Option("--qrels", help="Qrels of TREC, R2MED or BEIR, or Parquet.")],
    measures: Annotated[str, typer.Option(help="Comma-separated, e.g. RR,R@100,RBP(p=0.8).")] = "nDCG@10,R@100,AP,RR",
    per_query: Annotated[bool, typer.Option("--per-query", help="Also each query's values.")] = False,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people or for programs.")] = "table",
    like: Annotated[
        Literal["r2med", "trec_eval"], typer.Option("--as", help="Whose files, names and means: ours or trec_eval's.")
    ] = "r2med",
    complete: Annotated[
        bool, typer.Option("-c", help="With `--as trec_eval`: average over all queries of the qrels.")
    ] = False,
) -> None:
    """Score a run file from anywhere. Loads neither Ray nor torch nor FAISS.

    A mean is over the queries with a positive judgement, and an unanswered one counts 0. `--as trec_eval` averages as
    trec_eval does: over the queries that run and qrels share, with or without a positive.
    """
    from r2med_ray.evaluation.evaluate import evaluate_file, few_shared
    from r2med_ray.evaluation.measures import parse_measures
    from r2med_ray.evaluation.trec import read_qrels

    if like == "trec_eval":
        _evaluate_as_trec_eval(run_file, qrels_file, measures, per_query, format, complete)
        return
    if complete:
        raise ConfigError("-c is trec_eval's: write --as trec_eval -c. Without it unanswered queries count 0 already")
    result = evaluate_file(run_file, read_qrels(qrels_file), parse_measures(measures))
    if warning := few_shared(result):
        typer.echo(f"warning: {warning}", err=True)
    counts = {
        "queries": result.num_queries,
        "unanswered": result.num_unanswered,
        "without_positives": result.num_without_positives,
        "unjudged": result.num_unjudged,
    }
    values = {"all": dict(result.means), **(result.per_query if per_query else {})}
    if format == "json":
        report = {"measures": values["all"], "counts": counts}
        typer.echo(json.dumps(report | ({"per_query": result.per_query} if per_query else {}), ensure_ascii=False))
        return
    for query_id in [*(result.per_query if per_query else ()), "all"]:
        for name, value in values[query_id].items():
            typer.echo(f"{name:12}\t{query_id}\t{value:.4f}")
    for name, count in counts.items():
        typer.echo(f"{name:12}\tall\t{count}")
    typer.echo(
        f"A mean is over the {result.num_queries} queries with a positive judgement; {result.num_unanswered} of them "
        f"are unanswered and count 0; {result.num_without_positives} without a positive are left out."
    )


def _evaluate_as_trec_eval(
    run_file: Path, qrels_file: Path, measures: str, per_query: bool, format: str, complete: bool
) -> None:
    from r2med_ray.evaluation.as_trec_eval import evaluate_as_trec_eval
    from r2med_ray.evaluation.measures import parse_measures
    from r2med_ray.evaluation.trec import read_qrels

    qrels = read_qrels(qrels_file, comments=True)
    figures = evaluate_as_trec_eval(run_file, qrels, parse_measures(measures), complete=complete)
    if format == "table":
        for line in figures.lines(per_query=per_query):
            typer.echo(line)
        return
    report = {"measures": dict(figures.means), "counts": {"num_q": len(figures.per_query)}}
    typer.echo(json.dumps(report | ({"per_query": figures.per_query} if per_query else {}), ensure_ascii=False))
