"""The plan of a round: seeded, whole, and the same whatever other rounds there are."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.corpora import Corpus
from r2med_ray.negatives.drafts import Slot, seed_of
from r2med_ray.negatives.slots import plan
from r2med_ray.types import Query, Task

KINDS = ("another entity", "wrong question", "contradicting", "mimic")


def task_with(positives: int) -> Task:
    """Return a task of one query with some positives, one judged negative, and a positive that the corpus lacks."""
    grades = {f"d{number}": 1 for number in range(positives)} | {"x": 0, "lacking": 2}
    return Task(
        name="T",
        suite="T",
        revision="1",
        corpus=Corpus(key="corpus/x", digest="x", shards=()),
        queries=(Query(query_id="q", text="a question"), Query(query_id="without", text="another")),
        qrels={"q": grades},
        folder="",
    )


def slots(positives: int, *, per_query: int = 5, round_: int = 1, seed: int = 42) -> list[Slot]:
    known = {f"d{number}" for number in range(positives)} | {"x"}
    return plan(task_with(positives), known, kinds=KINDS, per_query=per_query, round_=round_, seed=seed)


def test_only_queries_with_a_positive_in_the_corpus_get_slots() -> None:
    planned = slots(3)

    assert {slot.query_id for slot in planned} == {"q"}
    assert {slot.positive_id for slot in planned} == {"d0", "d1", "d2"}
    assert [slot.number for slot in planned] == [0, 1, 2, 3, 4]


@given(positives=st.integers(1, 7), seed=st.integers(0, 100))
def test_no_pair_of_positive_and_kind_comes_again_before_all_were_planned(positives: int, seed: int) -> None:
    pairs = positives * len(KINDS)

    planned = slots(positives, per_query=2 * pairs, seed=seed)

    for half in (planned[:pairs], planned[pairs:]):
        assert set(Counter((slot.positive_id, slot.kind) for slot in half).values()) == {1}


@given(round_=st.integers(1, 6))
def test_a_round_plans_what_comes_after_the_round_before_it(round_: int) -> None:
    together = [slot[:3] for slot in slots(3, per_query=30)]

    assert [slot[:3] for slot in slots(3, round_=round_)] == together[5 * (round_ - 1) : 5 * round_]
    assert {slot.round for slot in slots(3, round_=round_)} == {round_}


def test_another_seed_gives_another_plan() -> None:
    plans = {tuple(slots(5, seed=seed)) for seed in range(8)}

    assert len(plans) == 8


def test_a_seed_is_made_of_its_parts_and_has_31_bits() -> None:
    # `printf '[1,"plan"]' | sha256sum` begins with 334467dc; half of 0x334467dc is 430060526.
    assert seed_of(1, "plan") == 430060526
    assert len({seed_of("plan", number) for number in range(100)}) == 100
    assert all(0 <= seed_of(number) < 2**31 for number in range(100))


@pytest.mark.parametrize("queries", [None, 1, 2])
def test_a_plan_may_look_at_the_first_queries_alone(queries: int | None) -> None:
    planned = plan(task_with(1), {"d0"}, kinds=KINDS, per_query=1, round_=1, seed=1, queries=queries)

    assert [slot.query_id for slot in planned] == ["q"]
