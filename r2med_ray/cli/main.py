"""The commands that run and read benchmarks, and the start of `r2med`.

Imports are inside the commands, so that `r2med evaluate` loads neither Ray nor torch nor FAISS.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from r2med_ray.cli.comparing import compare, plot, report
from r2med_ray.cli.configuring import config, init
from r2med_ray.cli.demo import demo
from r2med_ray.cli.evaluating import evaluate
from r2med_ray.cli.exchange import contrasts, mteb_app, nano_app, texts_app
from r2med_ray.cli.messages import guard_messages, show_ray
from r2med_ray.cli.options import (
    AddressOption,
    ConfigArgument,
    OutputOption,
    PlanOnlyOption,
    SetOption,
    StoreOption,
    VerboseOption,
)
from r2med_ray.cli.serving import serve
from r2med_ray.cli.showing import show
from r2med_ray.errors import InterruptedByUser, R2MedError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.garbage import collect_garbage, find_damaged
from r2med_ray.storage.listing import listed, remove

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
artifacts_app = typer.Typer(help="The store: what is in it, whether it is whole, what can go.", no_args_is_help=True)
app.add_typer(artifacts_app, name="artifacts")
explain_app = typer.Typer(help="What the settings mean.", no_args_is_help=True)
app.add_typer(explain_app, name="explain")
app.add_typer(texts_app, name="texts")
app.add_typer(mteb_app, name="mteb")
app.add_typer(nano_app, name="nano")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"r2med_ray {version('r2med-ray')}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None:
    """Reasoning-driven medical retrieval benchmarks on Ray."""


@app.command()
def run(
    config: ConfigArgument,
    store: StoreOption = None,
    output: OutputOption = None,
    address: AddressOption = "auto",
    overrides: SetOption = None,
    dry_run: PlanOnlyOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run a benchmark: every system on every task, then the report."""
    from r2med_ray.benchmark import run_job

    show_ray(verbose)
    run_job(config, store=store, output=output, address=address, overrides=overrides or [], dry_run=dry_run)


@app.command()
def plan(
    config: ConfigArgument,
    store: StoreOption = None,
    address: AddressOption = "auto",
    overrides: SetOption = None,
) -> None:
    """Show systems × tasks, what is stored and missing, and what each stage will reserve."""
    from r2med_ray.benchmark import run_job

    run_job(config, store=store, output=None, address=address, overrides=overrides or [], dry_run=True)


@app.command()
def status(
    store: Annotated[str, typer.Argument(help="Folder or URI of the artefacts.")] = "store",
) -> None:
    """Show what a store holds, and what the jobs that work with it do: running, finished, failed, or dead."""
    from r2med_ray.workbench.job_records import status as status_of

    for line in status_of(_store(store), time.time()):
        typer.echo(line)


@app.command()
def tasks(
    generations: Annotated[
        bool,
        typer.Option("--generations", help="Which published generated texts, and lists of Nano sets, are here."),
    ] = False,
) -> None:
    """List the tasks that are known by name."""
    from r2med_ray.corpus.catalog import TASKS

    if generations:
        _generations()
        return
    for name, row in TASKS.items():
        source = f"{row.hub}@{row.revision[:12] or 'COMMIT'}" if row.hub else "shipped"
        typer.echo(f"{name:24} {row.suite:9} {row.counts.queries:5} queries {row.counts.rows:7} rows  {source}")


@app.command()
def models(
    extra: Annotated[Path | None, typer.Option("--models", help="A YAML file with rows of your own.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Every model of the catalogue as a table.")] = False,
) -> None:
    """List retrievers, rerankers and language models."""
    from r2med_ray.indexing.bm25 import BM25_ROWS
    from r2med_ray.models.catalog.load import load_catalog
    from r2med_ray.models.catalog.table import models_list, models_table

    catalog = load_catalog(extra)
    if markdown:
        typer.echo(models_table(catalog))
        return
    for name, bm25 in BM25_ROWS.items():
        typer.echo(f"{name:38} {'bm25':18} k1={bm25.k1:g} b={bm25.b:g}")
    for line in models_list(catalog):
        typer.echo(line)


for command in (demo, show, serve, evaluate, compare, report, plot, config, init, contrasts):
    app.command()(command)


def _generations() -> None:
    from r2med_ray.corpus.catalog import TASKS
    from r2med_ray.corpus.layouts import LAYOUTS
    from r2med_ray.corpus.sources import data_folder, is_cached
    from r2med_ray.rewriting.published_generations import GENERATIONS, at_hand

    for name, row in TASKS.items():
        if row.split:
            lists, here = LAYOUTS[row.layout].ranked_lists, row.lists_at_hand()
            typer.echo(f"{name:24} {len(here):2} of {len(lists):2} lists at hand  {' '.join(here)}")
        elif row.repository:
            here = at_hand(data_folder(name), partial(is_cached, row.repository, row.revision))
            typer.echo(f"{name:24} {len(here):2} of {len(GENERATIONS):2} texts at hand  {' '.join(here)}")
    typer.echo(f"published texts: {' '.join(GENERATIONS)}")


@explain_app.command("compat")
def explain_compat() -> None:
    """List every difference between the default and `compat: r2med`, and what each model's row changes."""
    from r2med_ray.models.catalog.load import load_catalog
    from r2med_ray.settings.compat import explain

    typer.echo(explain())
    catalog = load_catalog()
    typer.echo("\nmodel-settings of the catalogue")
    for row in (*catalog.encoders.values(), *catalog.api_encoders.values(), *catalog.rerankers.values()):
        if row.r2med:
            changes = ", ".join(f"{key} {getattr(row, key)!r} → {value!r}" for key, value in row.r2med.items())
            typer.echo(f"  {row.name:24} {changes}")


def _store(uri: str | None) -> ArtifactStore:
    """Open a store that is there already: an empty answer about a mistyped one would look like good news."""
    store = ArtifactStore(uri or "store")
    store.require_folder()
    return store


@artifacts_app.command("ls")
def artifacts_ls(
    store: StoreOption = None,
    kind: Annotated[str, typer.Option(help="A glob, e.g. '*vectors'.")] = "*",
    task: Annotated[str, typer.Option(help="A glob of the task for which an artefact was made first.")] = "*",
    model: Annotated[str, typer.Option(help="A glob of the retriever, reranker or language model.")] = "*",
) -> None:
    """List the artefacts: size in bytes, date, name, task and model; of a generated text also what it is about."""
    found = list(listed(_store(store), kind=kind, task=task, model=model))
    for each in found:
        typer.echo(each.line())
    typer.echo(f"{sum(each.artifact.num_bytes for each in found):12}  in {len(found)} artefacts")


@artifacts_app.command("rm")
def artifacts_rm(
    names: Annotated[list[str], typer.Argument(help="KIND/DIGEST as `ls` shows it, or globs such as 'vectors/*'.")],
    store: StoreOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove artefacts by name. A benchmark that needs them makes them again."""
    for name in remove(_store(store), names, dry_run=dry_run):
        typer.echo(f"{'would remove' if dry_run else 'removed'} {name}")


@artifacts_app.command("verify")
def artifacts_verify(store: StoreOption = None) -> None:
    """Read every byte; name what has changed, and what was made from it. The exit code is 1 if anything has."""
    from r2med_ray.corpus.convert import names_of

    problems = list(find_damaged(_store(store), names_of))
    for name, problem in problems:
        typer.echo(f"{name}: {problem}")
    typer.echo(f"{len(problems)} damaged")
    raise typer.Exit(1 if problems else 0)


@artifacts_app.command("gc")
def artifacts_gc(
    store: StoreOption = None,
    older_than_hours: Annotated[float, typer.Option(help="Leave what is younger than this.")] = 24.0,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Also remove what has changed bytes, or was made from it.")
    ] = False,
    keep_used_by: Annotated[
        list[Path] | None,
        typer.Option(
            "--keep-used-by",
            help="Also remove what this benchmark file doesn't use; may be repeated. Texts and paid vectors stay.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove what killed jobs left half made; if asked, also what is damaged, or what no named benchmark uses."""
    from r2med_ray.corpus.convert import names_of

    opened, now = _store(store), time.time()
    names = _unused(opened, keep_used_by, datetime.fromtimestamp(now - older_than_hours * 3600, UTC))
    for path in collect_garbage(
        opened,
        older_than_s=older_than_hours * 3600,
        now=now,
        damaged=damaged,
        names_of=names_of,
        dry_run=dry_run,
    ):
        typer.echo(f"{'would remove' if dry_run else 'removed'} {path}")
    for name in names:
        if not dry_run:
            opened.remove(name)
        typer.echo(f"{'would remove' if dry_run else 'removed'} {name}")


def _unused(store: ArtifactStore, files: list[Path] | None, before: datetime) -> list[str]:
    from r2med_ray.settings.config_files import load_with
    from r2med_ray.systems import resolve
    from r2med_ray.workbench.unused import unused

    return unused(store, [load_with(resolve, file) for file in files], before=before) if files else []


def exit_on_user_error(command: Callable[[], object]) -> None:
    """Run a command. An error that the user can mend is printed without a traceback, and the exit code is 2.

    After Ctrl-C in a benchmark, it is 130.

    No message shows a key or a password; see `messages.guard_messages`.
    """
    guard_messages()
    try:
        command()
    except InterruptedByUser as ended:
        typer.echo(str(ended), err=True)
        raise SystemExit(130) from ended  # as a shell says of a program that SIGINT ended
    except R2MedError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error


def main() -> None:
    """Run `r2med`."""
    exit_on_user_error(app)
