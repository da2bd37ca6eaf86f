"""Commands that exchange results, texts and collections with other projects. Imports are inside the commands."""

from pathlib import Path
from typing import Annotated

import typer

from r2med_ray.cli.options import ConfigArgument, SetOption, StoreOption

mteb_app = typer.Typer(
    help="MTEB: its result files in and out, its tasks through our retrieval.", no_args_is_help=True
)
texts_app = typer.Typer(help="What language models wrote for queries.", no_args_is_help=True)
nano_app = typer.Typer(help="Nano sets: collections cut down in NanoR2MED's layout.", no_args_is_help=True)


@texts_app.command("export")
def texts_export(
    config: ConfigArgument,
    system: Annotated[str, typer.Option("--system", help="A system of the file whose rewriter has an `llm`.")],
    output: Annotated[Path, typer.Option(help="Gets one folder per task.")],
    sample: Annotated[int, typer.Option(min=0, help="Which text of each query.")] = 0,
    store: StoreOption = None,
    overrides: SetOption = None,
) -> None:
    """Write stored texts in R2MED's layout, so that others can replay them as `generations`."""
    from r2med_ray.interop.written_texts import export_texts

    for path in export_texts(
        config, system, output, sample=sample, store=store or "store", overrides=overrides or []
    ):
        typer.echo(path)


@mteb_app.command("export")
def mteb_export(
    results: Annotated[Path, typer.Argument(help="A folder that a run wrote.")],
    folder: Annotated[Path, typer.Argument(help="What `mteb.ResultCache` is given.")],
) -> None:
    """Write the results of a run as MTEB's result files."""
    from r2med_ray.reporting.mteb_results import export_mteb
    from r2med_ray.reporting.output_folder import require_writable
    from r2med_ray.reporting.write import load_results

    require_writable("folder", folder)
    for path in export_mteb(load_results(results), folder):
        typer.echo(path)


@mteb_app.command("import")
def mteb_import(
    place: Annotated[Path, typer.Argument(help="MTEB's result file, or a folder with such files.")],
    results: Annotated[
        Path | None, typer.Option(help="A folder that a run wrote, to compare with; its tasks are known, too.")
    ] = None,
    tasks: Annotated[list[str] | None, typer.Option("--task", help="Only this task; may be repeated.")] = None,
    measure: Annotated[str, typer.Option(help="What is shown.")] = "nDCG@10",
) -> None:
    """List the figures of MTEB's result files, beside those of a run where one is given."""
    from r2med_ray.interop.mteb_table import import_table

    typer.echo(import_table(place, tasks or [], results, measure), nl=False)


@mteb_app.command("run")
def mteb_run(
    config: ConfigArgument,
    system: Annotated[str, typer.Option(help="A system of the file that is one retriever.")],
    tasks: Annotated[list[str], typer.Option("--task", help="MTEB's name or ours, e.g. Biology; may be repeated.")],
    output: Annotated[Path, typer.Option(help="Folder of an `mteb.ResultCache`.")] = Path("mteb_results"),
    store: StoreOption = None,
    address: Annotated[str | None, typer.Option(help="As of `run`. Left out: in this process, without Ray.")] = None,
    overrides: SetOption = None,
) -> None:
    """Let mteb evaluate a retriever of a benchmark file on its own tasks."""
    from r2med_ray.interop.mteb_run import run_mteb

    found = run_mteb(
        config, system, tasks, output, overrides=overrides or [], address=address, store=store or "store"
    )
    for result in found:
        typer.echo(f"{result.task_name:32} {100 * result.get_score():.2f}")


@nano_app.command("build")
def nano_build(
    source: Annotated[str, typer.Argument(help="A task, a glob such as R2MED/*, or with --layout a folder.")],
    output: Annotated[Path, typer.Option(help="Folder of the set; it must not exist.")],
    layout: Annotated[
        str | None, typer.Option(help="The source is a folder in this layout: r2med, beir, ...")
    ] = None,
    split: Annotated[str, typer.Option(help="The qrels of that folder.")] = "test",
    queries: Annotated[int, typer.Option(min=1, help="At most so many per task.")] = 200,
    documents: Annotated[int, typer.Option(min=1, help="At most so many per task.")] = 10_000,
    dense: Annotated[str | None, typer.Option(help="A dense TREC run; {task} stands for the task's name.")] = None,
) -> None:
    """Cut collections down to a Nano set with BM25, dense and hybrid lists; whole or not at all."""
    from r2med_ray.corpus.catalog import resolve_tasks
    from r2med_ray.interop.nano.build import build_nano
    from r2med_ray.settings.config import TaskConfig

    folder = (
        TaskConfig(path=source, layout=layout, name=Path(source).absolute().name, split=split) if layout else source
    )
    built = build_nano(resolve_tasks([folder]), output, num_queries=queries, num_documents=documents, dense=dense)
    for name, pool in built.items():
        typer.echo(f"{name}: {len(pool.queries)} queries, {len(pool.documents)} documents")


def contrasts(
    file: Annotated[Path, typer.Argument(help="Records with id, q1, q2, doc1, doc2: CSV, JSON Lines or Parquet.")],
    output: Annotated[Path, typer.Option(help="Folder of the task; it must not exist.")],
    kind: Annotated[str, typer.Option(help="What the two documents of a record differ in.")] = "negation",
) -> None:
    """Write pairs in NevIR's shape as a task in R2MED's layout, with a pack of contrasts."""
    from r2med_ray.interop.contrast_sets import import_contrasts

    typer.echo(f"{output}: {import_contrasts(file, output, kind=kind)} contrasts")
