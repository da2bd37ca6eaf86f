"""The command that shows what models are really given. Imports are inside the command."""

import json
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from r2med_ray.cli.options import ConfigArgument, SetOption, StoreOption


def show(
    config: ConfigArgument,
    task: Annotated[str, typer.Option("--task", help="A task of the benchmark file.")],
    system: Annotated[str, typer.Option("--system", help="A system of the benchmark file.")],
    query: Annotated[str, typer.Option("--query", help="The id of a query.")],
    document: Annotated[
        str | None, typer.Option("--document", help="The id of a document; the first relevant one if it is left out.")
    ] = None,
    store: StoreOption = None,
    overrides: SetOption = None,
    format: Annotated[Literal["text", "json"], typer.Option(help="For people or for programs.")] = "text",
) -> None:
    """Show the exact texts, prompts, tokens and cuts that a system's models are given for one query and one document.

    Starts no cluster, asks no service and writes nothing. Models that run here are loaded to say what they read.
    """
    from r2med_ray.settings.config_files import load_with
    from r2med_ray.systems import resolve
    from r2med_ray.workbench.bench import open_workbench
    from r2med_ray.workbench.showing.show import show as shown_by
    from r2med_ray.workbench.showing.text import shown_text

    benchmark = load_with(resolve, config, overrides or [])
    resources = benchmark.config.resources
    with open_workbench(store or "store", names=benchmark.names, resources=resources, only_to_plan=True) as bench:
        shown = shown_by(
            bench, bench.dtypes.of_benchmark(benchmark), task=task, system=system, query=query, document=document
        )
    typer.echo(json.dumps(asdict(shown), ensure_ascii=False) if format == "json" else shown_text(shown))
