"""The command that serves the search page. Imports are inside the command."""

from typing import Annotated

import typer

from r2med_ray.cli.options import AddressOption, ConfigArgument, SetOption, StoreOption


def serve(
    config: ConfigArgument,
    task: Annotated[list[str] | None, typer.Option("--task", help="Only this task; may be repeated.")] = None,
    system: Annotated[list[str] | None, typer.Option("--system", help="Only this system; may be repeated.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the page; 0 takes a free one. 8650 if left out.")] = None,
    store: StoreOption = None,
    address: AddressOption = "auto",
    overrides: SetOption = None,
) -> None:
    """Serve a search page over a benchmark's systems, and the same as JSON, on this machine until Ctrl-C.

    What the store lacks is made first. Limits on visitors are settings: `--set resources.search_page.queue=10`.
    """
    from r2med_ray.live.job import serve_job

    changes = [*(overrides or []), *([] if port is None else [f"resources.search_page.port={port}"])]
    serve_job(
        config,
        store=store,
        address=address,
        overrides=changes,
        tasks=task or [],
        systems=system or [],
        say=typer.echo,
    )
