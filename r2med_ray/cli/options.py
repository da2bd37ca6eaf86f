"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ConfigArgument = Annotated[Path, typer.Argument(help="A benchmark file, e.g. jobs/full_benchmark.yaml.")]
StoreOption = Annotated[
    str | None, typer.Option("--store", help="Folder or URI of the artefacts; ./store if it is left out.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="key=value over the file, e.g. resources.encode.actors=2.")
]
AddressOption = Annotated[
    str, typer.Option(help="`local`, a cluster's address, or `auto`: RAY_ADDRESS where it is set, else local.")
]

OutputOption = Annotated[
    str | None, typer.Option(help="Folder or URI of the results; ./results/NAME of the benchmark if it is left out.")
]

VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="Show Ray's own lines too: retries, tracebacks and what workers write.")
]

PlanOnlyOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")]
