"""A table of our figures beside published ones, with a verdict per task and mean, and its notes."""

from collections import Counter
from dataclasses import replace
from functools import partial

from r2med_ray.reporting.columns import Column, text_table
from r2med_ray.reporting.formats import bound, points, signed_points
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.scales import measures_of
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.verdicts import KNOWN, OUTSIDE, WITHIN, Verdict, verdicts

DECIMALS = 3
"""Decimals of a percentage. R2MED's files give a share with five decimals, which is a percentage with three."""

WHICH_COMPARES = (
    "Systems under `compat: r2med` stand beside R2MED's result files, or its leaderboard where no file is left; a "
    "single encoder without it beside MTEB's figure for the same checkpoint, which used MTEB's prompts. NanoR2MED's "
    "three profiles stand beside its own tables, whose small corpora compare with no others."
)


def compare_with_published(record: BenchmarkRecord) -> str:
    """Return the comparison for a terminal or a log."""
    only_scores = replace(record, baseline=None, config={**record.config, "hard_negatives": ()})
    judged = verdicts(summarise(only_scores))
    if not judged:
        measures = ", ".join(record.measures)
        return f"{record.name}: none of {measures} is published for any of its systems and tasks\n"
    notes = "".join(f"{note}\n" for note in verdict_notes(judged))
    main = record.main_measure if measures_of(record)[record.main_measure].is_share else "figures"
    return f"{record.name}: {main} on a scale of 0–100\n\n{text_table(verdict_columns(judged))}\n{notes}"


def verdict_columns(judged: list[Verdict]) -> list[Column]:
    """Return the columns of a table with one row per verdict that is to be listed."""
    judged = [row for row in judged if row.is_listed]
    return [
        Column(title="System", values=[row.system for row in judged], is_number=False),
        Column(title="Task", values=[row.task for row in judged], is_number=False),
        Column(title="Ours", values=[row.ours for row in judged], write=partial(points, decimals=DECIMALS)),
        Column(title="Published", values=[row.published for row in judged], write=partial(points, decimals=DECIMALS)),
        Column(
            title="Difference",
            values=[row.difference for row in judged],
            write=partial(signed_points, decimals=DECIMALS),
        ),
        Column(title="Tolerance", values=[row.tolerance for row in judged], write=bound),
        Column(title="Verdict", values=[row.verdict for row in judged], is_number=False),
        Column(
            title="Reason",
            values=[", ".join(reason.name for reason in row.reasons) for row in judged],
            is_number=False,
        ),
        Column(title="Source", values=[row.source for row in judged], is_number=False),
    ]


def verdict_notes(judged: list[Verdict]) -> list[str]:
    """Return notes: the number of verdicts of each kind, what each reason means, and what is comparable."""
    counts = Counter(row.verdict if row.ours is not None else "not computed" for row in judged)
    kinds = [f"{counts[kind]} {kind}" for kind in (WITHIN, KNOWN, OUTSIDE, "not computed") if counts[kind]]
    reasons = dict.fromkeys(reason for row in judged for reason in row.reasons)
    return [
        f"{', '.join(kinds)}, of {len(judged)} published figures.",
        *_other_measures(judged),
        WHICH_COMPARES,
        *(f"{reason.name}: {reason.because} ({reason.source})." for reason in reasons),
    ]


def _other_measures(judged: list[Verdict]) -> list[str]:
    """Return one note: for each measure but the main one, how many tasks are within tolerance.

    The list is empty if no other measure is published.
    """
    total = Counter(row.detail_of for row in judged if row.detail_of)
    within = Counter(row.detail_of for row in judged if row.verdict == WITHIN)
    counts = [f"{measure}: {within[measure]} of {count} within" for measure, count in total.items()]
    return [f"Tasks in other measures, listed where not within: {', '.join(counts)}."] if counts else []
