"""Tables of how a benchmark ran: its tasks, its stages, and each system on each task and query."""

from collections.abc import Sequence

from r2med_ray.reporting.columns import Column
from r2med_ray.reporting.formats import count, points, tenths
from r2med_ray.reporting.part_records import PartRecord
from r2med_ray.reporting.record import BenchmarkRecord


def task_columns(record: BenchmarkRecord) -> list[Column]:
    """Return one row per task: its suite, its revision and the counts of the loader."""
    tasks = record.tasks
    counted = dict.fromkeys(name for task in tasks for name in task.counts)
    return [
        Column(title="Task", values=[task.name for task in tasks], is_number=False),
        Column(title="Suite", values=[task.suite for task in tasks], is_number=False),
        Column(title="Revision", values=[task.revision for task in tasks], is_number=False),
        *(
            Column(
                title=_words(name),
                values=[task.counts.get(name) for task in tasks],
                write=count,
            )
            for name in counted
        ),
    ]


def stage_columns(record: BenchmarkRecord) -> list[Column]:
    """Return one row per stage that systems share: what this job did, and how all that it used was made.

    A worker's rate and the computers are those of the time when the artefacts were made.
    """
    stages = record.stages
    texts = {"Cost": [stage.cost for stage in stages], "Slow": [stage.slow for stage in stages]}
    return [
        Column(title="Stage", values=[stage.stage for stage in stages], is_number=False),
        Column(title="Of", values=[stage.unit for stage in stages], is_number=False),
        Column(title="Documents", values=[stage.documents for stage in stages], write=count),
        Column(title="Seconds", values=[stage.seconds for stage in stages], write=tenths),
        Column(title="Documents/s", values=[stage.documents_per_second for stage in stages], write=tenths),
        Column(title="Source", values=["kept" if stage.reused else "made" for stage in stages], is_number=False),
        *_made_columns([stage.made for stage in stages]),
        *(Column(title=title, values=values, is_number=False) for title, values in texts.items() if any(values)),
    ]


def result_columns(record: BenchmarkRecord) -> list[Column]:
    """Return one row per system and task: counts of queries, and seconds per stage."""
    results = record.results
    stages = dict.fromkeys(stage for result in results for stage in result.seconds)
    recalls = [result.index_recall for result in results]
    return [
        Column(title="System", values=[result.system for result in results], is_number=False),
        Column(title="Task", values=[result.task for result in results], is_number=False),
        Column(title="Queries", values=[result.evaluation.num_queries for result in results], write=count),
        Column(title="Unanswered", values=[result.evaluation.num_unanswered for result in results], write=count),
        Column(title="Flagged", values=[result.num_flagged for result in results], write=count),
        Column(title="Repaired", values=[result.num_repaired for result in results], write=count),
        *(
            [Column(title="Left out", values=[result.num_left_out for result in results], write=count)]
            if any(result.num_left_out for result in results)
            else []
        ),
        Column(title="Unjudged", values=[result.evaluation.num_unjudged for result in results], write=count),
        Column(title="Short", values=[result.num_short for result in results], write=count),
        *([Column(title="Index recall", values=recalls, write=points)] if any(recalls) else []),
        *(
            Column(title=f"{stage}, s", values=[result.seconds.get(stage) for result in results], write=tenths)
            for stage in stages
        ),
    ]


def _words(key: str) -> str:
    """Return the key of a count as a heading: `queries_without_qrels` as `Queries without qrels`."""
    return key.replace("_", " ").capitalize()


def _made_columns(made: Sequence[PartRecord | None]) -> list[Column]:
    """Return how all that was used was made, whichever job made it; nothing if nobody knows."""
    if not any(made):
        return []
    texts = {
        "Computed on": ["; ".join(each.computers) if each else "" for each in made],
        "Dtype": [", ".join(each.dtypes) if each else "" for each in made],
        "Most tokens": [" or ".join(map(str, each.lengths)) if each else "" for each in made],
        "Engine": [", ".join(each.engines) if each else "" for each in made],
        "Cost in all": [each.cost if each else "" for each in made],
    }
    rates = [each.items_per_second if each else None for each in made]
    return [
        Column(title="In all", values=[each.items if each else None for each in made], write=count),
        Column(title="Worker seconds", values=[each.seconds if each else None for each in made], write=tenths),
        Column(title="Per worker second", values=rates, write=tenths),
        *(Column(title=title, values=values, is_number=False) for title, values in texts.items() if any(values)),
    ]
