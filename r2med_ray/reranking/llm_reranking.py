"""Rerankers that are language models: they read a query with several of its candidates at once.

    listwise    orders windows of candidates, from the end of the ranking to its head, so that what is good rises
                (RankGPT, Sun et al. 2023, arXiv 2304.09542)
    groupwise   grades the members of groups beside each other; grades decide over all groups (GroupRank, 2025,
                arXiv 2511.11653)

Both may run in several passes over shuffled candidates, whose orders are fused by reciprocal rank, against a model's
liking for certain places. Both may see the first stage's scores (InsertRank, 2025, arXiv 2506.14086). An answer that
leaves out, repeats or invents ids is repaired by the rules of `permutations`, so the candidates stay what they were.
Repairs are counted per query, and a run with too many answers that nothing could be read from is refused.

Scores are ranks: the last of n candidates gets 1, the first n. They say nothing between queries.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from r2med_ray.errors import DataError, named
from r2med_ray.protocols import Candidates, ChatPrompt, Completion, TextGenerator
from r2med_ray.reranking.permutations import NO_LIST, read_grades, read_permutation
from r2med_ray.settings.templates import Template
from r2med_ray.types import Repairs, Reranking

Read: TypeAlias = Callable[[Completion], tuple[str, str]]
"""Cuts the answer out of what a model wrote; second, what is wrong with it (`cut at limit`), or nothing."""

PLACES = ("query", "passages", "count")
"""What a prompt of a reranker is filled with."""

BEST_GRADE = 10.0
RRF_K = 60
"""Of the passes (Cormack et al. 2009)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmReranking:
    """How a language model is asked to rerank."""

    strategy: Literal["listwise", "groupwise"] = "listwise"
    window: int = 20
    """Candidates of one prompt."""

    step: int = 10
    """How far a listwise window moves; what it overlaps with the next one can rise further."""

    passes: int = 1
    """The first pass sees the first stage's order, every other a shuffled one."""

    show_scores: bool = False
    """Whether the first stage's scores stand beside the passages."""

    passage_words: int = 300
    """Words kept of each passage."""

    seed: int = 42


@dataclass(slots=True)
class _Repaired:
    """What was repaired in the answers about one query."""

    rules: Counter[str] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)

    def note(self, repairs: Counter[str], flaw: str) -> None:
        """Count the repairs of an answer, or why nothing could be read from it."""
        if NO_LIST in repairs:
            self.unreadable[flaw or NO_LIST] += 1
        else:
            self.rules += repairs


@dataclass(slots=True)
class _Ordering:
    """The candidates of one query in one pass; positions are those of the first stage."""

    candidates: Candidates
    number: int
    order: list[int]
    repaired: _Repaired
    """Shared by the passes of the query."""

    grades: dict[int, float] = field(default_factory=dict)


class LlmReranker:
    """Scores the candidates of many queries; prompts of all queries go to the model together.

    Args:
        model: answers the prompts.
        read: cuts the answer out of what the model wrote.
        template: of the prompt, with `PLACES`.
        settings: strategy, windows, passes.
    """

    def __init__(
        self,
        model: TextGenerator,
        read: Read,
        template: Template,
        settings: LlmReranking,
    ) -> None:
        self._model = model
        self._read = read
        self._template = template
        self._settings = settings

    def score_all(self, work: Sequence[Candidates]) -> Reranking:
        """Return the ranks as scores, and what was repaired on the way.

        Raises:
            StageError: the model failed for good; names the queries.
        """
        repaired = {candidates.query.query_id: _Repaired() for candidates in work}
        orderings = [
            _Ordering(candidates, number, self._shown_order(candidates, number), repaired[candidates.query.query_id])
            for candidates in work
            for number in range(self._settings.passes)
        ]
        if self._settings.strategy == "listwise":
            self._order_windows(orderings)
        else:
            self._grade_groups(orderings)
        return Reranking(
            scores={
                candidates.query.query_id: _rank_scores([o.order for o in orderings if o.candidates is candidates])
                for candidates in work
            },
            repairs=Repairs(
                rules={q: dict(noted.rules) for q, noted in repaired.items() if noted.rules},
                unreadable={q: dict(noted.unreadable) for q, noted in repaired.items() if noted.unreadable},
            ),
        )

    def _shown_order(self, candidates: Candidates, number: int) -> list[int]:
        order = list(range(len(candidates.documents)))
        if number:
            random.Random(f"{self._settings.seed}\0{candidates.query.query_id}\0{number}").shuffle(order)
        return order

    def _order_windows(self, orderings: Sequence[_Ordering]) -> None:
        """Order each window in turn, the same turn of all queries and passes together."""
        windows = [window_starts(len(o.order), self._settings.window, self._settings.step) for o in orderings]
        for turn in range(max(map(len, windows), default=0)):
            asked = [(o, starts[turn]) for o, starts in zip(orderings, windows, strict=True) if turn < len(starts)]
            shown = [o.order[start : start + self._settings.window] for o, start in asked]
            answers = self._ask([(o, positions) for (o, _), positions in zip(asked, shown, strict=True)], turn)
            for (ordering, start), positions, (answer, flaw) in zip(asked, shown, answers, strict=True):
                reordering = read_permutation(answer, len(positions))
                ordering.repaired.note(reordering.repairs, flaw)
                ordering.order[start : start + len(positions)] = [positions[i] for i in reordering.positions]

    def _grade_groups(self, orderings: Sequence[_Ordering]) -> None:
        """Grade all groups at once. Who gets no grade gets its group's lowest: silence lifts nobody."""
        size = self._settings.window
        contested = [o for o in orderings if len(o.order) > 1]
        asked = [(o, o.order[start : start + size]) for o in contested for start in range(0, len(o.order), size)]
        for (ordering, positions), (answer, flaw) in zip(asked, self._ask(asked, 0), strict=True):
            grades = read_grades(answer, len(positions), best=BEST_GRADE)
            ordering.repaired.note(grades.repairs, flaw)
            lowest = min((value for value in grades.values if value is not None), default=0.0)
            for position, value in zip(positions, grades.values, strict=True):
                ordering.grades[position] = lowest if value is None else value
        for ordering in contested:
            ordering.order = sorted(ordering.grades, key=lambda position: (-ordering.grades[position], position))

    def _ask(self, asked: Sequence[tuple[_Ordering, Sequence[int]]], turn: int) -> list[tuple[str, str]]:
        if not asked:
            return []
        prompts = [self._prompt(ordering, positions, turn) for ordering, positions in asked]
        return [self._read(completion) for completion in self._model.generate(prompts)]

    def _prompt(self, ordering: _Ordering, positions: Sequence[int], turn: int) -> ChatPrompt:
        query = ordering.candidates.query
        passages = [self._passage(number, ordering, position) for number, position in enumerate(positions, start=1)]
        text = self._template.fill(query=query.text, passages="\n".join(passages), count=str(len(positions)))
        return ChatPrompt(
            unit=f"query {query.query_id!r}, pass {ordering.number + 1}, window {turn + 1}",
            messages=({"role": "user", "content": text},),
            seed=self._settings.seed + ordering.number,
        )

    def _passage(self, number: int, ordering: _Ordering, position: int) -> str:
        words = ordering.candidates.documents[position].content.split()[: self._settings.passage_words]
        score = f"(score {ordering.candidates.scores[position]:.4g}) " if self._settings.show_scores else ""
        return f"[{number}] {score}{' '.join(words)}"


def require_readable(reranking: Reranking, *, max_unusable: float, unit: str) -> None:
    """Check that an order or grades could be read from the answers about enough queries.

    Args:
        reranking: whose queries with two or more candidates were asked about.
        max_unusable: share of these that may have an unreadable answer.
        unit: system and task, for errors.

    Raises:
        DataError: there are more; names the queries and the reasons.
    """
    unreadable = reranking.repairs.unreadable
    asked = sum(len(scores) > 1 for scores in reranking.scores.values())
    if not unreadable or len(unreadable) / asked <= max_unusable:
        return
    answers = reranking.repairs.unreadable_answers
    reasons = ", ".join(f"{reason}: {number}" for reason, number in answers.most_common())
    raise DataError(
        f"{unit}: {len(unreadable)} of {asked} queries have answers of the reranker that nothing can be read from "
        f"({reasons}), {max_unusable:.0%} may: {named([*unreadable])}. Answers are kept, so the "
        "same settings give the same ones: set another `seed` in the reranker's row, a larger `max_tokens` in its "
        "language model's, or a larger `max_unusable` of the reranker"
    )


def window_starts(length: int, window: int, step: int) -> list[int]:
    """Return where windows begin, from the end of a ranking to its head; the last one begins at 0."""
    starts = list(range(max(0, length - window), 0, -step))
    return [*starts, 0] if length > 1 else []


def _rank_scores(orders: Sequence[Sequence[int]]) -> list[float]:
    """Fuse the orders of all passes; equal sums fall as in the first stage."""
    count = len(orders[0])
    fused = [0.0] * count
    for order in orders:
        for rank, position in enumerate(order, start=1):
            fused[position] += 1 / (RRF_K + rank)
    ranked = sorted(range(count), key=lambda position: (-fused[position], position))
    scores = [0.0] * count
    for rank, position in enumerate(ranked):
        scores[position] = float(count - rank)
    return scores
