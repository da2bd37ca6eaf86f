"""What was cut off the texts that models read: warnings and notes for a reader, and the table of all counts."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from r2med_ray.cuts import Cuts, PartCuts, Side
from r2med_ray.reporting.columns import Column
from r2med_ray.reporting.formats import NOTHING, count, points
from r2med_ray.reporting.record import BenchmarkRecord

WARN_FROM = 0.01
"""The share of cut texts, of lost tokens or of queries with the same vector, from which on a report warns."""

SIDES: tuple[Side, ...] = ("query", "document")
PLURAL = {"query": "queries", "document": "documents"}


class _Read(NamedTuple):
    """One side of what one part read for one system and task."""

    system: str
    task: str
    part: PartCuts
    side: Side

    @property
    def cuts(self) -> Cuts | None:
        return self.part.query if self.side == "query" else self.part.document

    @property
    def what(self) -> tuple[str, Side, str]:
        """The model, the side and the task, which several systems may share."""
        return self.part.reader, self.side, self.task

    @property
    def same(self) -> int | None:
        return self.part.same if self.side == "query" else None


def cut_warnings(record: BenchmarkRecord) -> Iterator[str]:
    """Yield a sentence per model and side of which at least `WARN_FROM` was lost: the tasks, and how much."""
    grouped: defaultdict[str, list[tuple[_Read, str]]] = defaultdict(list)
    for read in _reads(record):
        cuts, part = read.cuts, read.part
        if cuts is not None and max(cuts.share_cut, cuts.share_lost) >= WARN_FROM:
            begin = f"{part.reader} reads at most {_lengths(cuts)} {_of(read)}. Cut were"
            share = f"{points(cuts.share_lost)}% of all {cuts.unit} lost"
            grouped[begin].append((read, f"{count(cuts.cut)} of {count(cuts.texts)} {_what(read)} ({share})"))
    for read in _reads(record):
        if read.same is not None and read.same >= WARN_FROM * read.part.queries and read.same:
            begin = f"{read.part.reader} has the same vector for different queries:"
            grouped[begin].append((read, f"{count(read.same)} of {count(read.part.queries)} queries"))
    readers: defaultdict[tuple[str, Side, str], set[str]] = defaultdict(set)
    for read in _reads(record):
        readers[read.what].add(read.system)
    for begin, told in grouped.items():
        yield f"{begin} {_by_task(told, readers)}."


def cut_notes(record: BenchmarkRecord) -> Iterator[str]:
    """Yield a sentence per model that doesn't say what it cut."""
    unknown: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for read in _reads(record):
        if read.cuts is None:
            lacking = "`Rewriting.cuts`" if read.part.of == "prompts" else "`take_cuts`"
            unknown[f"{read.part.reader} has cut off {_what(read)}", lacking][read.task] = None
    for (what, lacking), tasks in unknown.items():
        yield (
            f"Unknown: what {what} on {', '.join(tasks)}. It was made before cuts were counted, or by a class "
            f"without {lacking}."
        )


def cut_columns(record: BenchmarkRecord) -> list[Column]:
    """Return one row per system, task, part that reads texts with a model, and side."""
    reads = list(_reads(record))
    cuts = [read.cuts for read in reads]
    return [
        Column(title="System", values=[read.system for read in reads], is_number=False),
        Column(title="Task", values=[read.task for read in reads], is_number=False),
        Column(title="Read by", values=[read.part.part for read in reads], is_number=False),
        Column(title="Read", values=[_what(read) for read in reads], is_number=False),
        Column(title="At most", values=[_lengths(each) if each else "unknown" for each in cuts], is_number=False),
        Column(title="Texts", values=[each.texts if each else None for each in cuts], write=count),
        Column(title="Cut", values=[each.cut if each else None for each in cuts], write=count),
        Column(title="Cut, %", values=[each.share_cut if each else None for each in cuts], write=points),
        Column(title="Tokens lost, %", values=[each.share_lost if each else None for each in cuts], write=points),
        Column(title="Queries with the same vector", values=[read.same for read in reads], write=count),
    ]


def _reads(record: BenchmarkRecord) -> Iterator[_Read]:
    for result in record.results:
        for part in result.cuts:
            for side in SIDES:
                yield _Read(result.system, result.task, part, side)


def _lengths(cuts: Cuts) -> str:
    return f"{' or '.join(map(count, cuts.lengths))} {cuts.unit}" if cuts.lengths else NOTHING


def _of(read: _Read) -> str:
    # The tokens of a cross-encoder are those of both texts, those of late interaction are of one.
    in_pairs = read.part.of == "pairs" and read.cuts is not None and read.cuts.unit == "tokens"
    return "at once" if in_pairs else f"of a {read.side}"


def _what(read: _Read) -> str:
    return PLURAL[read.side] if read.part.of == "texts" else f"{PLURAL[read.side]} in {read.part.of}"


def _by_task(told: Iterable[tuple[_Read, str]], readers: Mapping[tuple[str, Side, str], set[str]]) -> str:
    """Return what is told of each task. Systems are named unless it is true of all that have the model.

    Args:
        told: what is told of what was read.
        readers: model, side and task → the systems that have the model.
    """
    tasks: defaultdict[str, defaultdict[str, dict[str, _Read]]] = defaultdict(lambda: defaultdict(dict))
    for read, what in told:
        tasks[read.task][what][read.system] = read
    parts = []
    for task, said in tasks.items():
        named = []
        for what, reads in said.items():
            of_all = all(readers[read.what] == reads.keys() for read in reads.values())
            named.append(what if of_all else f"{what} for {', '.join(reads)}")
        parts.append(f"{' and '.join(named)} on {task}")
    return "; ".join(parts)
