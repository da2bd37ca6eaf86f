"""RANK and MEASURE: all systems on all tasks together, and what a report is told of what they found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from r2med_ray.evaluation.hard_negatives.neighbourhood import NeighbourhoodMap
from r2med_ray.first_stages.bad_documents import left_out_of
from r2med_ray.pipeline import Ranked, rank
from r2med_ray.recording import result_record
from r2med_ray.reporting.missing import Missing
from r2med_ray.reporting.part_records import ModelRecord
from r2med_ray.reporting.record import ResultRecord
from r2med_ray.reporting.texts import TaskTexts
from r2med_ray.settings.hard_negatives import with_condition, without_condition
from r2med_ray.storage.keys import Json
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem
from r2med_ray.types import QueryId, Task
from r2med_ray.workbench.bench import Workbench
from r2med_ray.workbench.leaks import Leaks
from r2med_ray.workbench.made import Made, corpus_made
from r2med_ray.workbench.neighbourhoods import neighbourhood_maps
from r2med_ray.workbench.parts import Ended
from r2med_ray.workbench.showing.examples import example
from r2med_ray.workbench.showing.model_facts import model_records, sized
from r2med_ray.workbench.showing.page_sentences import with_sentences
from r2med_ray.workbench.showing.page_texts import page_texts


class Results(NamedTuple):
    """What all systems found on all tasks, and what a report is told of it."""

    records: list[ResultRecord]

    made: dict[str, list[Made]]
    """System → how its parts were computed."""

    examples: dict[str, Mapping[str, Json]]
    """System → an example of what its models are given, on its first task."""

    models: dict[str, tuple[ModelRecord, ...]]
    """System → the facts of its models."""

    texts: dict[str, TaskTexts]
    """Task → the texts that the page shows."""

    maps: tuple[NeighbourhoodMap, ...]


def results_of(benchmark: ResolvedBenchmark, bench: Workbench, tasks: Sequence[Task], missing: Missing) -> Results:
    """Have all systems rank all tasks together, and measure each run as soon as it is there."""
    pairs = {f"{system.name} on {task.name}": (task, system) for task in tasks for system in benchmark.systems}
    parts = {name: rank(task, system, device=bench.runner.device) for name, (task, system) in pairs.items()}
    results: dict[str, ResultRecord] = {}
    ranked: dict[str, Ranked] = {}
    made: dict[str, list[Made]] = {}
    leaks = Leaks(bench.store, benchmark.config.seed)
    for name, ended in bench.run(parts):
        task, system = pairs[name]
        with missing.noted(task.name, [system.name]):
            if not isinstance(ended, Ended):
                raise ended
            missed = sized(bench.store, bench.runner.device, task, system, ended.result)
            ended = replace(ended, result=replace(ended.result, approximations=missed))
            left_out = left_out_of(bench.store, system.searched_with, task, bench.runner.device)
            leakage = leaks.of(task, ended.result.rewriting)
            results[name] = result_record(benchmark, task, system, ended, left_out, leakage)
            ranked[name] = ended.result
            of_corpus = corpus_made(bench.store, task, system, ended.result, bench.runner.device)
            made.setdefault(system.name, []).extend([*of_corpus, *ended.made])
    done = [(*pairs[name], ranked[name]) for name in pairs if name in results]
    kept = Results([results[name] for name in pairs if name in results], made, {}, {}, {}, ())
    for task, system, found in done:
        if system.name not in kept.examples:
            kept.examples[system.name] = example(bench, benchmark.names, task, system, found)
            kept.models[system.name] = model_records(bench.store, bench.runner.device, task, system, found)
    for task in tasks:
        of_task = [(system, found) for each, system, found in done if each is task]
        if of_task and task.qrels:
            kept.texts[task.name] = page_texts(bench.store, bench.runner.device, task, of_task)
    texts = with_sentences(bench, kept.texts, done)
    return kept._replace(texts=texts, maps=tuple(_maps(benchmark, bench, tasks, done)))


def _maps(
    benchmark: ResolvedBenchmark,
    bench: Workbench,
    tasks: Sequence[Task],
    done: Sequence[tuple[Task, ResolvedSystem, Ranked]],
) -> Iterator[NeighbourhoodMap]:
    """Yield the maps that the benchmark wants, from the rankings with the hard negatives of all queries."""
    negatives = {task.name: task.hard_negatives for task in tasks}
    for task, system, ranked in done:
        base = without_condition(task.name)
        if task.name == with_condition(base, "all"):
            labelled = replace(task, hard_negatives=negatives[base])
            wanted = maps_of(benchmark, base)
            yield from neighbourhood_maps(bench.store, labelled, system, ranked, wanted, bench.runner.device)


def maps_of(benchmark: ResolvedBenchmark, task: str) -> tuple[QueryId, ...]:
    """Return the queries of a task whose neighbourhood is drawn."""
    return next((entry.maps for entry in benchmark.config.hard_negatives if entry.task == task), ())
