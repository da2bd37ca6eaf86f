"""Tables of the figures of hard negatives: per condition, per kind, and as another code computes them."""

from collections.abc import Mapping, Sequence

from r2med_ray.evaluation.hard_negatives.measures import FirstRanks
from r2med_ray.reporting.columns import Column, escape_markdown, markdown_table
from r2med_ray.reporting.formats import NOTHING, plain, points
from r2med_ray.reporting.hard_negatives import PAIRS, ConditionFigures
from r2med_ray.reporting.scales import comparison_columns, scale_of
from r2med_ray.reporting.summary import Summary
from r2med_ray.types import CONTROL

FOREIGN = "foreign_"
"""What the names of measures of other queries' hard negatives begin with."""

PREFERENCES = ("pair_acc", "contrast_acc")
"""The measures of the condition `pairs` that have a column for each kind."""

NOTES = (
    "Hard negatives look right for a query and support another conclusion. `own` adds a query's own to the corpus, "
    "`all` those of every query, and `all-reindexed` also counts them in BM25's statistics. Δ compares a system with "
    "itself without them; p is adjusted by Holm over the systems.",
    "`hn_` measures are over the queries with hard negatives of their own; lower is better. `foreign_` ones are of "
    "the hard negatives of other queries, beside what a random order would have (chance).",
    "First rank: the median and the quartiles of the rank of a query's first hard negative. A query whose hard "
    "negatives are all beyond the depth counts as later than any rank.",
    "pair_acc: how often a positive scores above a hard negative of its query, over all such pairs; a tie counts "
    "half, chance is 50. triplet_acc: the same for a hard negative and what it was made from. The kind that fools a "
    "system most is the one with the lowest pair_acc. A kind that begins with `control` holds no hard negatives, and "
    "is counted in no other figure.",
    "contrast_acc: how often both queries of a contrast are right, each of which has the other's positive as hard "
    "negative; a tie counts half in its query, chance is 25.",
)


def condition_columns(summary: Summary) -> list[Column]:
    """Return one row per task, system and condition, apart from `pairs`."""
    record = summary.record
    rows = [row for row in summary.hard_negatives if row.condition != PAIRS]
    scale = scale_of(record, record.main_measure)
    compared = [row.difference for row in rows]
    return [
        *_names(rows),
        Column(title="Condition", values=[row.condition for row in rows], is_number=False),
        Column(title=record.main_measure, values=[row.score for row in rows], write=scale.value),
        *comparison_columns(compared, scale),
        *_rank_columns([row.first_ranks for row in rows], record.depth),
        *_value_columns([row.values for row in rows], foreign=False),
    ]


def kind_columns(summary: Summary) -> list[Column]:
    """Return one row per task, system, condition apart from `pairs`, and kind of hard negative."""
    rows = [
        (row, kind, of_kind)
        for row in summary.hard_negatives
        if row.condition != PAIRS
        for kind, of_kind in row.by_kind.items()
    ]
    return [
        *_names([row for row, _, _ in rows]),
        Column(title="Condition", values=[row.condition for row, _, _ in rows], is_number=False),
        Column(title="Kind", values=[kind for _, kind, _ in rows], is_number=False),
        *_rank_columns([of_kind.first_ranks for _, _, of_kind in rows], summary.record.depth),
        *_value_columns([of_kind.values for _, _, of_kind in rows], foreign=False),
    ]


def foreign_columns(summary: Summary) -> list[Column]:
    """Return one row per task, system and condition that has the hard negatives of other queries."""
    rows = [row for row in summary.hard_negatives if any(name.startswith(FOREIGN) for name in row.values)]
    return [
        *_names(rows),
        Column(title="Condition", values=[row.condition for row in rows], is_number=False),
        *_value_columns([row.values for row in rows], foreign=True),
    ]


def pair_columns(summary: Summary) -> list[Column]:
    """Return one row per task and system: how often positives are preferred, to all and to each kind."""
    rows = [row for row in summary.hard_negatives if row.condition == PAIRS]
    cells = dict.fromkeys(
        (name, kind)
        for name in PREFERENCES
        for row in rows
        for kind, of_kind in row.by_kind.items()
        if name in of_kind.values
    )
    contrasts = [row.num_contrasts or None for row in rows]
    return [
        *_names(rows),
        Column(title="Fooled most by", values=[_hardest(row) for row in rows], is_number=False),
        *_value_columns([row.values for row in rows], foreign=False),
        *([Column(title="Contrasts", values=contrasts)] if any(contrasts) else []),
        *(
            Column(title=f"{name}: {kind}", values=[_of_kind(row, kind, name) for row in rows], write=points)
            for name, kind in cells
        ),
    ]


def as_coded_columns(summary: Summary) -> list[Column]:
    """Return one row per task, system, condition and figure of `compat: comp646`."""
    cells = [(row, name, value) for row in summary.hard_negatives for name, value in row.as_coded.items()]
    return [
        *_names([row for row, _, _ in cells]),
        Column(title="Condition", values=[row.condition for row, _, _ in cells], is_number=False),
        Column(title="Figure, as coded", values=[name for _, name, _ in cells], is_number=False),
        Column(title="Value", values=[value for _, _, value in cells], write=plain),
    ]


def hard_negative_tables(summary: Summary) -> dict[str, list[Column]]:
    """Return title → table, for the tables that have rows."""
    tables = {
        "Positives against hard negatives": pair_columns(summary),
        "With hard negatives in the corpus": condition_columns(summary),
        "Each kind of hard negative alone": kind_columns(summary),
        "Hard negatives of other queries": foreign_columns(summary),
        "As the COMPSCI-646 code computes them, for comparison only": as_coded_columns(summary),
    }
    return {title: columns for title, columns in tables.items() if columns[0].values}


def hard_negative_sections(summary: Summary) -> list[str]:
    """Return the tables and how to read them as Markdown; nothing for a benchmark without hard negatives."""
    sections = [
        part
        for title, columns in hard_negative_tables(summary).items()
        for part in (f"## {title}\n", markdown_table(columns))
    ]
    return [*sections, "".join(f"- {escape_markdown(note)}\n" for note in NOTES)] if sections else []


def _names(rows: Sequence[ConditionFigures]) -> list[Column]:
    return [
        Column(title="Task", values=[row.task for row in rows], is_number=False),
        Column(title="System", values=[row.system for row in rows], is_number=False),
    ]


def _value_columns(rows: Sequence[Mapping[str, float]], *, foreign: bool) -> list[Column]:
    names = dict.fromkeys(name for values in rows for name in values if name.startswith(FOREIGN) is foreign)
    return [Column(title=name, values=[values.get(name) for values in rows], write=points) for name in names]


def _rank_columns(rows: Sequence[FirstRanks | None], depth: int) -> list[Column]:
    beyond = [found.censored if found else None for found in rows]
    return [
        Column(title="First rank", values=list(map(_first_rank, rows))),
        Column(title=f"Beyond {depth}", values=beyond, write=points),
    ]


def _hardest(row: ConditionFigures) -> str:
    kinds = [kind for kind in row.by_kind if not kind.startswith(CONTROL)]
    return min(kinds, key=lambda kind: row.by_kind[kind].values["pair_acc"], default=NOTHING)


def _of_kind(row: ConditionFigures, kind: str, name: str) -> float | None:
    return row.by_kind[kind].values.get(name) if kind in row.by_kind else None


def _first_rank(found: FirstRanks | None) -> str:
    if found is None:
        return NOTHING
    median, low, high = ("beyond" if rank is None else str(rank) for rank in (found.median, *found.quartiles))
    return f"{median} [{low}, {high}]"
