"""The order of a query's candidates in one pass, and how a language model's answers change it.

Answers are read by the rules of `permutations`, so no candidate is lost and none comes twice.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from r2med_ray.protocols import Candidates
from r2med_ray.reranking.permutations import NO_LIST, read_grades, read_permutation
from r2med_ray.types import Repairs, Reranking

BEST_GRADE = 10.0
"""The best grade on the scale that the shipped prompts ask for."""

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
            repairs: rule of `permutations` → how often it was applied.
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

    def reorder(self, start: int, answer: str, flaw: str, *, window: int) -> None:
        """Put the candidates of the window that begins at `start` into the order of an answer."""
        shown = self.order[start : start + window]
        reordering = read_permutation(answer, len(shown))
        self.counts.note(reordering.repairs, flaw)
        self.order[start : start + window] = [shown[i] for i in reordering.positions]

    def grade(self, shown: Sequence[int], answer: str, flaw: str) -> None:
        """Take the grades of a group from an answer.

        A candidate without a grade gets the lowest grade of its group, so a missing grade never raises a candidate.
        """
        grades = read_grades(answer, len(shown), best=BEST_GRADE)
        self.counts.note(grades.repairs, flaw)
        lowest = min((value for value in grades.values if value is not None), default=0.0)
        for position, value in zip(shown, grades.values, strict=True):
            self.grades[position] = lowest if value is None else value

    def order_by_grades(self) -> None:
        """Order all candidates by grade; equal grades keep the first stage's order."""
        self.order = sorted(self.grades, key=lambda position: (-self.grades[position], position))


def passes_over(candidates: Candidates, *, passes: int, seed: int) -> list[Ordering]:
    """Return one ordering per pass: first the first stage's order, then shuffled orders.

    A shuffled order depends on seed, query id and pass only. So it is the same whichever other queries are reranked.
    """
    counts = RepairCounts()
    orderings = []
    for number in range(passes):
        order = list(range(len(candidates.documents)))
        if number:
            random.Random(f"{seed}\0{candidates.query.query_id}\0{number}").shuffle(order)
        orderings.append(Ordering(candidates, number, order, counts))
    return orderings


def fused(queries: Sequence[Sequence[Ordering]]) -> Reranking:
    """Return scores made from the fused orders of each query's passes, and the repairs.

    Repairs are sorted by query id and by rule, as in a stored file. So a first run and a second run agree.

    Args:
        queries: all passes of each query, at least one per query.
    """
    by_id = {passes[0].candidates.query.query_id: passes for passes in queries}
    counts = {query_id: by_id[query_id][0].counts for query_id in sorted(by_id)}
    return Reranking(
        scores={query_id: rank_scores([each.order for each in passes]) for query_id, passes in by_id.items()},
        repairs=Repairs(
            rules={q: dict(sorted(noted.rules.items())) for q, noted in counts.items() if noted.rules},
            unreadable={q: dict(sorted(noted.unreadable.items())) for q, noted in counts.items() if noted.unreadable},
        ),
    )


def window_starts(length: int, window: int, step: int) -> list[int]:
    """Return the places at which windows begin, from the end of a ranking to its head. The last place is 0."""
    starts = list(range(max(0, length - window), 0, -step))
    return [*starts, 0] if length > 1 else []


def rank_scores(orders: Sequence[Sequence[int]]) -> list[float]:
    """Fuse the orders of all passes, and score n candidates from n (the first) down to 1 (the last).

    If the sums of two candidates are equal, the first stage's order decides.

    Args:
        orders: for each pass, all positions in the order of that pass.

    Returns:
        One score per position.
    """
    count = len(orders[0])
    sums = [0.0] * count
    for order in orders:
        for rank, position in enumerate(order, start=1):
            sums[position] += 1 / (RRF_K + rank)
    ranked = sorted(range(count), key=lambda position: (-sums[position], position))
    scores = [0.0] * count
    for rank, position in enumerate(ranked):
        scores[position] = float(count - rank)
    return scores
