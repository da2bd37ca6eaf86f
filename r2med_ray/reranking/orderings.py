"""The order of a query's candidates in one pass, and how a language model's answers change it.

Answers are read by the rules of `permutations` and `grades`, so no candidate is lost and none comes twice.

Candidates that an answer ties stay tied: they count the same in the fusion of the passes, and the first stage's order
decides between them at the end. A tie ends if a later window shows one of the two without the other.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from r2med_ray.protocols import Candidates
from r2med_ray.reranking.choices import read_choice
from r2med_ray.reranking.grades import read_grades
from r2med_ray.reranking.permutations import read_permutation
from r2med_ray.reranking.shown_ids import NO_LIST
from r2med_ray.types import QueryId, Repairs, Reranking

RRF_K = 60
"""The constant k of reciprocal rank fusion (Cormack et al. 2009), which fuses the passes."""


@dataclass(slots=True)
class RepairCounts:
    """Counts of the repaired and the unreadable answers about one query, over all its passes."""

    rules: Counter[str] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)

    def note(self, repairs: Counter[str], flaw: str) -> None:
        """Count the repairs of an answer, or the reason why the answer is unreadable.

        Args:
            repairs: rule of `permutations` or `grades` → how often it was applied.
            flaw: what is wrong with the answer as a text, e.g. `cut at limit`; empty if nothing is.
        """
        if NO_LIST in repairs:
            self.unreadable[flaw or NO_LIST] += 1
        else:
            self.rules += repairs


@dataclass(slots=True)
class Ordering:
    """The candidates of one query in one pass. A position is a candidate's place in the first stage, from 0."""

    candidates: Candidates
    number: int
    """The number of the pass, from 0."""

    order: list[int]
    """All positions, the best candidate first."""

    counts: RepairCounts
    """The counts of the query. All its passes share this object."""

    grades: dict[int, float] = field(default_factory=dict)
    """Position → grade."""

    tied: set[int] = field(default_factory=set)
    """The positions that are tied with the next one in `order`."""

    @property
    def levels(self) -> list[list[int]]:
        """All positions, the best first; those of one level are tied."""
        levels: list[list[int]] = []
        for place, position in enumerate(self.order):
            if place and self.order[place - 1] in self.tied:
                levels[-1].append(position)
            else:
                levels.append([position])
        return levels

    def reorder(self, start: int, answer: str, flaw: str, *, window: int) -> None:
        """Put the candidates of the window that begins at `start` into the order of an answer.

        The first stage's order is that of tied candidates. An unreadable answer changes nothing.
        """
        shown = self.order[start : start + window]
        reordering = read_permutation(answer, len(shown))
        self.counts.note(reordering.repairs, flaw)
        if NO_LIST in reordering.repairs:
            return
        levels = [sorted(shown[i] for i in level) for level in reordering.levels]
        self.order[start : start + window] = [position for level in levels for position in level]
        self.tied.difference_update(shown)
        self.tied.update(position for level in levels for position in level[:-1])

    def choose(self, shown: Sequence[int], answer: str, flaw: str) -> int:
        """Return the place of the best of some shown positions, from 0.

        An unreadable answer leaves the choice to the first stage.
        """
        place = read_choice(answer, len(shown))
        if place is not None:
            return place
        self.counts.note(Counter({NO_LIST: 1}), flaw)
        return shown.index(min(shown))

    def grade(self, shown: Sequence[int], answer: str, flaw: str, *, best: float) -> None:
        """Take the grades of a group, from 0 to `best`, from an answer.

        A candidate without a grade gets the lowest grade of its group, so a missing grade never raises a candidate.
        """
        grades = read_grades(answer, len(shown), best=best)
        self.counts.note(grades.repairs, flaw)
        lowest = min((value for value in grades.values if value is not None), default=0.0)
        for position, value in zip(shown, grades.values, strict=True):
            self.grades[position] = lowest if value is None else value

    def order_by_grades(self) -> None:
        """Order all candidates by grade; equal grades are ties, which keep the first stage's order."""
        self.order = sorted(self.grades, key=lambda position: (-self.grades[position], position))
        self.tied = {best for best, next_ in pairwise(self.order) if self.grades[best] == self.grades[next_]}


def passes_over(candidates: Candidates, *, passes: int, seed: int, shuffle_first: bool = False) -> list[Ordering]:
    """Return one ordering per pass: first the first stage's order, unless that is shuffled too, then shuffled orders.

    A shuffled order depends on seed, query id and pass only. So it is the same whichever other queries are reranked.
    """
    counts = RepairCounts()
    orderings = []
    for number in range(passes):
        order = list(range(len(candidates.documents)))
        if number or shuffle_first:
            random.Random(f"{seed}\0{candidates.query.query_id}\0{number}").shuffle(order)
        orderings.append(Ordering(candidates, number, order, counts))
    return orderings


def fused(queries: Sequence[Sequence[Ordering]]) -> Reranking:
    """Return scores made from the fused orders of each query's passes, and the repairs.

    Args:
        queries: all passes of each query, at least one per query.
    """
    by_id = {passes[0].candidates.query.query_id: passes for passes in queries}
    return Reranking(
        scores={query_id: rank_scores([each.levels for each in passes]) for query_id, passes in by_id.items()},
        repairs=repairs_of({query_id: passes[0].counts for query_id, passes in by_id.items()}),
    )


def averaged(queries: Sequence[Sequence[Ordering]], *, best: float) -> Reranking:
    """Return scores made from the mean grades of each query's passes, these means from 0 to 1, and the repairs.

    Args:
        queries: all passes of each query, at least one per query. A query that nobody was asked about has no grades.
        best: the best grade.
    """
    values: dict[QueryId, list[float]] = {}
    for passes in queries:
        documents, query_id = passes[0].candidates.documents, passes[0].candidates.query.query_id
        sums = [math.fsum(each.grades.get(place, 0.0) for each in passes) for place in range(len(documents))]
        values[query_id] = [each / (len(passes) * best) for each in sums]
    counts = {passes[0].candidates.query.query_id: passes[0].counts for passes in queries}
    return by_value(values, repairs_of(counts))


def by_value(values: Mapping[QueryId, Sequence[float]], repairs: Repairs) -> Reranking:
    """Return scores made from the ranks of values, of which larger ones are better, with the values beside them."""
    scores = {query_id: rank_scores([levels_of(of_query)]) for query_id, of_query in values.items()}
    return Reranking(scores=scores, repairs=repairs, values=values)


def levels_of(values: Sequence[float]) -> list[list[int]]:
    """Return the positions of values, the largest first; those of equal values are together, in their order."""
    ranked = sorted(range(len(values)), key=lambda position: (-values[position], position))
    return [[*level] for _, level in groupby(ranked, key=lambda position: values[position])]


def repairs_of(counts: Mapping[QueryId, RepairCounts]) -> Repairs:
    """Return repairs by query id and rule, sorted as in a stored file. So a first run and a second run agree."""
    in_order = {query_id: counts[query_id] for query_id in sorted(counts)}
    return Repairs(
        rules={q: dict(sorted(noted.rules.items())) for q, noted in in_order.items() if noted.rules},
        unreadable={q: dict(sorted(noted.unreadable.items())) for q, noted in in_order.items() if noted.unreadable},
    )


def window_starts(length: int, window: int, step: int) -> list[int]:
    """Return the places at which windows begin, from the end of a ranking to its head. The last place is 0."""
    starts = list(range(max(0, length - window), 0, -step))
    return [*starts, 0] if length > 1 else []


def rank_scores(passes: Sequence[Sequence[Sequence[int]]]) -> list[float]:
    """Fuse the orders of all passes, and score n candidates from n (the first) down to 1 (the last).

    A candidate at rank r of a pass gets 1 / (RRF_K + r). Tied candidates share what their ranks get. If the sums of
    two candidates are equal, the first stage's order decides.

    Args:
        passes: for each pass, its levels: all positions, the best first, and those together that are tied.

    Returns:
        One score per position.
    """
    count = sum(map(len, passes[0]))
    shares: list[list[float]] = [[] for _ in range(count)]
    for levels in passes:
        rank = 1
        for level in levels:
            share = math.fsum(1 / (RRF_K + rank + place) for place in range(len(level))) / len(level)
            rank += len(level)
            for position in level:
                shares[position].append(share)
    sums = [math.fsum(of_position) for of_position in shares]  # exact, so that the order of the passes is no matter
    ranked = sorted(range(count), key=lambda position: (-sums[position], position))
    scores = [0.0] * count
    for rank, position in enumerate(ranked):
        scores[position] = float(count - rank)
    return scores
