"""The table of generated texts that hold what judged passages say, and the figures without their queries."""

from collections.abc import Sequence
from statistics import fmean

from r2med_ray.evaluation.leakage import WORDS
from r2med_ray.reporting.columns import Column, csv_table, escape_markdown, markdown_table
from r2med_ray.reporting.formats import count, points
from r2med_ray.reporting.record import BenchmarkRecord, ResultRecord
from r2med_ray.reporting.scales import scale_of

TITLE = "Generated texts that hold judged passages"

NOTE = (
    f"Leaking is the share of queries whose generated text has {WORDS} words in a row of a passage that is judged "
    "relevant, after NFKC, case folding and without punctuation; runs of the query itself don't count. By chance is "
    "the same share for as many passages of the task that were drawn at random. A writer that was shown passages may "
    "have its words from them."
)


def leak_columns(record: BenchmarkRecord) -> list[Column]:
    """Return one row per task and system with generated texts; no columns if there is none."""
    order = {task.name: place for place, task in enumerate(record.tasks)}
    rows = sorted((each for each in record.results if each.leakage), key=lambda each: order[each.task])
    leaks = [each.leakage for each in rows if each.leakage]
    if not leaks:
        return []
    main, scale = record.main_measure, scale_of(record, record.main_measure)
    return [
        Column(title="Task", values=[each.task for each in rows], is_number=False),
        Column(title="System", values=[each.system for each in rows], is_number=False),
        Column(title="Queries with a text", values=[len(each.asked) for each in leaks], write=count),
        Column(title="Leaking", values=[len(each.leaked) for each in leaks], write=count),
        Column(title="Leaking, %", values=[each.share for each in leaks], write=points),
        Column(title="By chance, %", values=[each.share_by_chance for each in leaks], write=points),
        Column(title=main, values=[each.evaluation.means[main] for each in rows], write=scale.value),
        Column(title=f"{main} without them", values=[_without(each, main) for each in rows], write=scale.value),
        Column(title="Passages", values=[each.num_passages for each in leaks], write=count),
        Column(title="Random passages", values=[each.num_random for each in leaks], write=count),
    ]


def leak_sections(record: BenchmarkRecord) -> Sequence[str]:
    """Return the parts of a Markdown page; none if no text was generated."""
    columns = leak_columns(record)
    return [f"## {TITLE}\n", markdown_table(columns), f"{escape_markdown(NOTE)}\n"] if columns else []


def leak_csv(record: BenchmarkRecord) -> str:
    """Return the table with every digit; empty if no text was generated."""
    columns = leak_columns(record)
    return csv_table(columns, exact=True) if columns else ""


def _without(result: ResultRecord, measure: str) -> float | None:
    """Return the mean of a measure over the queries whose texts don't leak; None if all of them do."""
    assert result.leakage is not None
    leaked = {*result.leakage.leaked}
    left = [value for query_id, value in result.evaluation.values(measure).items() if query_id not in leaked]
    return fmean(left) if left else None
