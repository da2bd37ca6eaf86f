"""The seeded plan of a round: which hard negatives each query should get, before anything is written."""

from collections.abc import Collection, Iterator, Sequence
from math import lcm

from r2med_ray.negatives.drafts import Slot, seed_of
from r2med_ray.types import DocId, Query, Task, positives_of


def plan(
    task: Task, known: Collection[DocId], *, kinds: Sequence[str], per_query: int, round_: int, seed: int,
    queries: int | None = None,
) -> list[Slot]:  # fmt: skip
    """Return the slots of a round, in the order of the queries.

    Positives and kinds of a query are in a seeded order and take turns, so that no two slots have both in common
    before every pair of the two was planned once. Rounds go on where the one before would stop; none depends on what
    another one made.

    Args:
        task: its queries with a positive that the corpus has get slots.
        known: the documents that the corpus has, of all positives.
        kinds: the kinds that are planned.
        per_query: slots of each query.
        round_: number of the round, from 1.
        seed: what the orders depend on.
        queries: how many of the task's queries are looked at; all for None.
    """
    return [
        slot
        for query in task.queries[:queries]
        for slot in _of_query(task, query, known, kinds, range((round_ - 1) * per_query, round_ * per_query), seed)
    ]


def _of_query(
    task: Task, query: Query, known: Collection[DocId], kinds: Sequence[str], places: range, seed: int
) -> Iterator[Slot]:
    def drawn(name: str) -> int:
        return seed_of(seed, "plan", task.name, query.query_id, name)

    positives = sorted(positives_of(task.qrels.get(query.query_id, {})).intersection(known), key=drawn)
    in_turn = sorted(kinds, key=drawn)
    if not positives:
        return
    together = lcm(len(positives), len(in_turn))
    for place in places:
        # One turn through `together` places meets a pair once; then the kinds are shifted, to meet the other pairs.
        kind = in_turn[(place + place // together) % len(in_turn)]
        positive = positives[place % len(positives)]
        yield Slot(query.query_id, positive, kind, places.start // len(places) + 1, place - places.start)
