"""Runs tasks of mteb with a retriever of a benchmark file, and keeps mteb's own results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from r2med_ray.errors import ConfigError
from r2med_ray.interop.mteb_search import MtebSearch
from r2med_ray.interop.mteb_tasks import import_mteb, load_data, mteb_task
from r2med_ray.reporting.output_folder import require_writable
from r2med_ray.settings.config_files import load_with
from r2med_ray.settings.registry import nearest
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem, resolve
from r2med_ray.workbench.bench import open_workbench


def run_mteb(
    config: Path,
    system: str,
    tasks: Sequence[str],
    output: Path,
    *,
    overrides: Sequence[str] = (),
    address: str | None = None,
    store: str = "store",
) -> list[Any]:
    """Evaluate a system on tasks of mteb, and return mteb's `TaskResult` of each task.

    Args:
        config: a benchmark file. Its own tasks are not read.
        system: the name of one of its systems, which must be a retriever alone.
        tasks: names of mteb's tasks, in our spelling or MTEB's.
        output: the folder of an `mteb.ResultCache`. Results of the same system and settings are written anew.
        overrides: settings that replace those of the file, as `key=value`.
        address: the address of a cluster, see `distributed.session.connect`. None works in this process.
        store: folder or URI of the artefacts.

    Raises:
        ConfigError: mteb is not installed, a name is unknown, the system is more than a retriever, or the output
            can't be written to.
        NotAtHand: the data of a task is not here.
    """
    require_writable("output", output)
    mteb = import_mteb()
    benchmark = load_with(resolve, config, overrides)
    chosen = _retriever_alone(benchmark, system)
    found = [mteb_task(name) for name in tasks]
    resources = benchmark.config.resources
    with open_workbench(store, address=address, names=benchmark.names, resources=resources) as bench:
        search, cache = MtebSearch(bench, bench.dtypes.known(chosen.first_stages[0])), mteb.ResultCache(output)
        results: list[Any] = []
        for task in found:
            load_data(task)
            results += mteb.evaluate(search, task, cache=cache, overwrite_strategy="always").task_results
            task.unload_data()
        return results


def _retriever_alone(benchmark: ResolvedBenchmark, name: str) -> ResolvedSystem:
    systems = {system.name: system for system in benchmark.systems}
    if name not in systems:
        raise ConfigError(f"unknown system {name!r}.{nearest(name, systems)} Known: {', '.join(systems)}")
    system = systems[name]
    if system.config.fusion or system.config.rewriter or system.rerankers:
        raise ConfigError(f"system {name!r} is {system.describe()}; mteb can run a system that is one retriever")
    return system
