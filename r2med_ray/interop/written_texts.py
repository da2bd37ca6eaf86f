"""Writes the texts of a benchmark's language models into files in R2MED's layout, for others to replay."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.query_subsets import with_choice
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.pipeline import rewriter_of
from r2med_ray.rewriting.answers import FORMATS
from r2med_ray.rewriting.exporting import write_generations, written_rows
from r2med_ray.rewriting.live import LiveRewriter
from r2med_ray.rewriting.methods import spelled
from r2med_ray.settings.config_files import load_with
from r2med_ray.settings.registry import Registry
from r2med_ray.systems import ResolvedSystem, resolve
from r2med_ray.types import Task
from r2med_ray.workbench.bench import Workbench, open_workbench
from r2med_ray.workbench.task_sources import find_task


def export_texts(
    config: Path, system: str, folder: Path, *, sample: int = 0, store: str = "store", overrides: Sequence[str] = ()
) -> list[Path]:
    """Write `<folder>/<task>/<method>/<writer>/query_with_hydoc.jsonl` for every task of a benchmark.

    Args:
        config: the benchmark file.
        system: the name of one of its systems. A language model must write the texts of its rewriter.
        folder: the folder that gets one folder per task.
        sample: number of the sample, from 0, that is written for each query.
        store: folder or URI of the artefacts, which holds the texts. No model is asked for a text.
        overrides: settings that replace those of the file, as `key=value`.

    Returns:
        The paths of the files.

    Raises:
        ConfigError: there is no such system or sample, or no language model writes the texts of the system.
        DataError: texts are not yet written. The message names the system and the task.
    """
    benchmark = load_with(resolve, config, overrides)
    chosen = Registry("system", [(each.name, each) for each in benchmark.systems])[system]
    resources = benchmark.config.resources
    with open_workbench(store, names=benchmark.names, resources=resources, only_to_plan=True) as bench:
        tasks = [
            load_task(
                find_task(entry, download=False),
                bench.store,
                documents_per_shard=resources.documents_per_shard,
                shards=resources.shards,
                on_conflict=benchmark.on_conflict,
            )
            for entry in benchmark.tasks
        ]
        asked = [with_choice(task, benchmark.choices.get(task.name)) for task in tasks]
        chosen = bench.dtypes.of_system(chosen)
        return [_export(bench, task, chosen, folder / task.name, sample) for task in asked]


def _export(bench: Workbench, task: Task, system: ResolvedSystem, folder: Path, sample: int) -> Path:
    config, method = system.config.rewriter, system.method
    if (
        config is None
        or system.language_model is None
        or method is None
        or method.kind != "live"
        or method.build
        or method.turns(config) > 1
    ):
        raise ConfigError(
            f"system {system.name!r} is {system.describe()}: it has no texts that a language model writes, one per "
            "query, as with `rewriter: {method: hyde, llm: ...}`"
        )
    if sample >= config.samples:
        raise ConfigError(f"sample {sample}: system {system.name!r} has {config.samples} samples, counted from 0")
    rewriter = cast(LiveRewriter, rewriter_of(task, system, device=bench.runner.device))
    written = bench.stored(f"{system.name} on {task.name}", rewriter.write(task.queries))
    if written is None:
        raise DataError(f"{system.name} on {task.name}: its texts are not written yet; run the benchmark first")
    texts = {query_id: of_query[sample] for query_id, of_query in written.items()}
    rows = written_rows(task.queries, texts, FORMATS[system.language_model.answer_format])
    return write_generations(rows, folder, f"{spelled(config.method)}/{config.writer}")
