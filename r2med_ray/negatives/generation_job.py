"""A round of hard negatives for all tasks of a file, as one job: all tasks together, in large batches."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.negatives.controls import length_matched
from r2med_ray.negatives.generating import Round, generate, planned
from r2med_ray.negatives.generation_settings import GenerationConfig
from r2med_ray.negatives.material import Material, Tools
from r2med_ray.negatives.round_files import round_files, round_folder, write_round
from r2med_ray.reporting.output_folder import require_writable
from r2med_ray.systems import Names
from r2med_ray.types import DocId, Task
from r2med_ray.workbench.bench import Workbench, open_workbench
from r2med_ray.workbench.job_records import recorded
from r2med_ray.workbench.parts import Ended

logger = logging.getLogger(__name__)


def run_generation(
    config: GenerationConfig, *, store: str | Path, output: Path, address: str | None, dry_run: bool = False
) -> list[Path]:
    """Make one round, and return the folder of each task. The same call again asks nothing that was answered.

    Args:
        config: the settings.
        store: folder or URI of the artefacts; every text of a model is one.
        output: the folder that gets `<task>/round-<n>`.
        address: see `open_workbench`.
        dry_run: show the plan and stop.

    Raises:
        R2MedError: something is wrong with the settings, the data, the store, a model or the cluster.
    """
    require_writable("output", output)
    names = Names.load(Path(config.models) if config.models else None)
    tools = Tools.of(config, names)
    sources = resolve_tasks(config.tasks)
    with open_workbench(
        store,
        address=address,
        names=names,
        resources=config.resources,
        name=config.name,
        only_to_plan=dry_run,
        cluster=config.cluster,
    ) as bench:
        known = bench.dtypes.known
        tools = replace(tools, anchors=known(tools.anchors), embedder=known(tools.embedder))
        materials = [load_material(bench, source, config, tools) for source in sources]
        for material in materials:
            print(plan_text(material))  # noqa: T201
        if dry_run:
            return []
        with recorded(bench.store, config.name, str(output)):
            return write_rounds(bench, materials, output)


def plan_text(material: Material) -> str:
    """Return what the round plans for a task, in one line."""
    slots, config = planned(material), material.config
    queries, positives = ({slot[place] for slot in slots} for place in range(2))
    # Without judgements and filters that end an attempt early: a hard query, a passage, a grade of each judge, two
    # orders, an answer, and whether it agrees.
    most = len(slots) * config.attempts * (6 + len(config.judges))
    return (
        f"{material.task.name}, round {config.round}: {len(slots)} hard negatives of {len(config.kinds)} kinds for "
        f"{len(queries)} queries, made from {len(positives)} positives; at most {most} texts, and those of "
        "controls and of calibration"
    )


def load_material(bench: Workbench, source: TaskSource, config: GenerationConfig, tools: Tools) -> Material:
    """Load a task, and what its round is made with."""
    resources = config.resources
    task = load_task(source, bench.store, documents_per_shard=resources.documents_per_shard, shards=resources.shards)
    for warning in task.warnings:
        logger.warning("%s: %s", task.name, warning)

    def corpus_of(texts: Mapping[DocId, str]) -> Task:
        return bench.task(f"texts for {task.name}", documents=texts)

    # R2MED says that `answer` is the right answer; in files of other layouts it may be anything.
    queries = task.queries if source.layout == "r2med" else ()
    answers = {query.query_id: query.answer for query in queries if query.answer.strip()}
    return Material.load(task, config, tools, bench.store, answers=answers, corpus_of=corpus_of)


def write_rounds(bench: Workbench, materials: Sequence[Material], output: Path) -> list[Path]:
    """Make the rounds of all tasks together, write each as soon as it is there, and return their folders."""
    by_name = {material.task.name: material for material in materials}
    folders = {}
    for name, ended in bench.run({name: generate(material) for name, material in by_name.items()}):
        if not isinstance(ended, Ended):
            raise ended
        folders[name] = _written(bench, by_name[name], ended.result, output)
    return [folders[name] for name in by_name]


def _written(bench: Workbench, material: Material, made: Round, output: Path) -> Path:
    config, task = material.config, material.task
    random = length_matched(bench.store, task, made.released, config.seed) if config.controls else []
    folder = round_folder(output, task.name, config.round)
    write_round(folder, round_files(material, made, random))
    counts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(made.verdicts.items()))
    print(f"{task.name}: {len(made.slots)} planned, {len(made.unfilled)} unfilled; attempts: {counts}")  # noqa: T201
    for judge, groups in made.calibration.items():
        grades = "; ".join(
            f"{group} " + (", ".join(f"{grade}: {number}" for grade, number in sorted(counts.items())) or "none")
            for group, counts in groups.items()
        )
        print(f"{judge} grades what is known: {grades}")  # noqa: T201
    print(f"pack: {folder}")  # noqa: T201
    return folder
