"""The commands that help to write a benchmark file. Imports are inside the commands."""

import json
from pathlib import Path
from typing import Annotated

import typer

from r2med_ray.errors import ConfigError


def config(
    models: Annotated[
        bool, typer.Option("--models", help="The keys of a models file: one section of rows per kind of model.")
    ] = False,
    json_schema: Annotated[
        bool, typer.Option("--json-schema", help="As a JSON schema, with which editors check and complete a file.")
    ] = False,
) -> None:
    """Print every key of a benchmark file with its kind, default and meaning."""
    from r2med_ray.models.catalog.load import SECTIONS
    from r2med_ray.models.catalog.schema import models_schema
    from r2med_ray.rewriting.own_methods import SECTION, MethodRow
    from r2med_ray.settings.config import BenchmarkConfig
    from r2med_ray.settings.describing import describe

    sections = {name: section.row_class for name, section in SECTIONS.items()} | {SECTION: MethodRow}
    if json_schema:
        schema = models_schema(sections) if models else BenchmarkConfig.model_json_schema()
        typer.echo(json.dumps(schema, indent=1, ensure_ascii=False))
        return
    rows = {f"{name}[].": row for name, row in sections.items()}
    for prefix, model in (rows if models else {"": BenchmarkConfig}).items():
        for line in describe(model, prefix):
            typer.echo(line)


def init(
    folder: Annotated[Path, typer.Argument(help="A collection of your own, in the layout r2med, beir or trec.")],
    output: Annotated[Path | None, typer.Option(help="The benchmark file; ./NAME.yaml if it is left out.")] = None,
) -> None:
    """Write a commented benchmark file for a folder of your own."""
    from r2med_ray.corpus.new_benchmark import new_benchmark

    file = output or Path(f"{folder.resolve().name}.yaml")
    text = new_benchmark(folder, file)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise ConfigError(f"{file}: can't be written ({error.strerror}); name another file with --output") from error
    typer.echo(f"{file}\nnext: r2med plan {file}")
