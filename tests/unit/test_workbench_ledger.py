"""The ledger, tested with whole numbers: what fits, what ends, what goes first, and that every part is served."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.errors import CapacityError
from r2med_ray.workbench.ledger import (
    Group,
    Holder,
    Need,
    are_held,
    decide,
    ends_for,
    fits_beside,
    idle,
    side_by_side,
)


def group(
    name: str, cpus: int, *, waiting: str = "a", coming: str = "", rank: int = 0, passed_over: int = 0
) -> Group:
    return Group(
        name=name,
        need=Need(cpus=cpus),
        waiting=frozenset(waiting),
        coming=frozenset(coming),
        start_rank=rank,
        passed_over=passed_over,
    )


def holders(*items: tuple[str, int, str]) -> dict[str, Holder]:
    return {name: Holder(name=name, need=Need(cpus=cpus), wanted_by=frozenset(by)) for name, cpus, by in items}


def test_what_runs_already_is_asked_before_something_starts() -> None:
    decision = decide(Need(cpus=4), holders(("model", 2, "a")), [group("index", 1), group("model", 2, rank=4)])

    assert (decision.group.name, decision.end) == ("model", ())


def test_a_model_waits_for_the_parts_that_are_still_on_their_way_to_it() -> None:
    decision = decide(Need(cpus=4), {}, [group("model", 2, coming="bc"), group("index", 1, rank=1)])

    assert decision.group.name == "index"


def test_where_all_wait_for_each_other_the_quickest_start_goes_first() -> None:
    decision = decide(
        Need(cpus=4), {}, [group("model", 2, coming="b", rank=4), group("index", 1, coming="c", rank=1)]
    )

    assert decision.group.name == "index"


def test_nothing_that_is_needed_ends_while_something_else_can_be_done() -> None:
    # b needs index 1 and now waits for the model. Index 2 would only fit in place of index 1.
    running = holders(("index 1", 2, "b"), ("model", 2, "b"))
    decision = decide(Need(cpus=4), running, [group("index 2", 2), group("model", 2, waiting="b", coming="a")])

    assert (decision.group.name, decision.end) == ("model", ())


def test_as_little_ends_as_possible_and_what_nobody_needs_ends_first() -> None:
    running = holders(("needed", 2, "b"), ("idle", 1, ""), ("wanted by two", 2, "bc"))

    # 5 of 6 CPUs are held. A group of 2 needs 1 more, so the idle holder ends. A group of 3 needs 2 more, so the
    # holder that only b needs ends.
    assert ends_for(Need(cpus=6), running, group("new", 2)) == ("idle",)
    assert ends_for(Need(cpus=6), running, group("new", 3)) == ("needed",)
    assert ends_for(Need(cpus=6), running, group("new", 1)) == ()


def test_gpus_are_counted_beside_cpus() -> None:
    running = {"engine": Holder(name="engine", need=Need(cpus=1, gpus=1), wanted_by=frozenset("a"))}

    assert not fits_beside(Need(cpus=8, gpus=1), running.values(), Need(cpus=1, gpus=1))
    assert fits_beside(Need(cpus=8, gpus=1), running.values(), Need(cpus=7))


@pytest.mark.parametrize(
    ("cpus", "most", "joined"),
    [
        # `one` takes 2 CPUs. `open` is reserved already, `two` takes 2 more, and `late` is never ready.
        pytest.param(8, 9, ["two", "open", "three"], id="room-for-all"),
        pytest.param(8, 2, ["two"], id="no-more-than-are-allowed"),
        pytest.param(8, 1, [], id="one-at-a-time"),
        # 2 for `one` and 3 for `open` leave 1.
        pytest.param(6, 9, ["open", "three"], id="what-does-not-fit-is-left-out"),
        pytest.param(5, 9, ["open"], id="what-runs-takes-no-more-room"),
    ],
)
def test_searches_that_fit_are_made_at_the_same_time(cpus: int, most: int, joined: list[str]) -> None:
    chosen = group("one", 2)
    others = [chosen, group("late", 0, coming="b"), group("two", 2), group("open", 3), group("three", 1)]

    beside = side_by_side(Need(cpus=cpus), holders(("open", 3, "a")), chosen, others, most)
    assert [each.name for each in beside] == joined


def test_what_nobody_needs_is_idle() -> None:
    assert idle(holders(("index", 1, ""), ("model", 1, "a"))) == ("index",)


def test_what_never_fits_is_refused_with_both_numbers() -> None:
    with pytest.raises(CapacityError, match=r"model reserves 9 CPU and 0 GPU; the cluster has 4 and 0"):
        decide(Need(cpus=4), {}, [group("model", 9)])


def test_a_group_that_was_passed_over_often_enough_goes_first() -> None:
    impatient = group("model", 2, coming="bc", rank=4, passed_over=3)

    assert decide(Need(cpus=4), {}, [impatient, group("index", 1)], patience=4).group.name == "index"
    assert decide(Need(cpus=4), {}, [impatient, group("index", 1)], patience=3).group.name == "model"


PLACES = [f"p{number}" for number in range(6)]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Need, dict[str, Need], list[list[str]]]:
    """Draw what a cluster has, what each place reserves of it, and the places that each part goes to, in order."""
    capacity = Need(cpus=draw(st.integers(1, 8)), gpus=draw(st.integers(0, 3)))
    cpus, gpus = st.integers(0, int(capacity.cpus)), st.integers(0, int(capacity.gpus))
    needs = {place: Need(cpus=draw(cpus), gpus=draw(gpus)) for place in PLACES}
    routes = draw(st.lists(st.lists(st.sampled_from(PLACES), min_size=1, max_size=6), min_size=1, max_size=8))
    return capacity, needs, routes


def reserved(holders: Iterable[Holder]) -> Need:
    return sum((holder.need for holder in holders), Need())


def could_be_served_without_loss(capacity: Need, running: Mapping[str, Holder], group: Group) -> bool:
    """Say whether a group runs already, or fits beside everything that somebody needs."""
    needed = [holder for holder in running.values() if holder.wanted_by]
    return group.name in running or (reserved(needed) + group.need).fits(capacity)


@settings(max_examples=300)
@given(clusters(), st.integers(1, 5))
def test_every_part_comes_to_its_end_and_nothing_is_reserved_twice_or_ended_in_vain(
    cluster: tuple[Need, dict[str, Need], list[list[str]]], patience: int
) -> None:
    capacity, needs, routes = cluster
    left = {f"part {number}": list(route) for number, route in enumerate(routes)}
    running: dict[str, Holder] = {}
    passed_over: dict[str, int] = {}
    while left:
        groups = []
        for place in PLACES:
            waiting = frozenset(part for part, route in left.items() if route[0] == place)
            coming = frozenset(part for part, route in left.items() if place in route[1:]) - waiting
            if waiting:
                over = passed_over.get(place, 0)
                need = needs[place]
                groups.append(Group(name=place, need=need, waiting=waiting, coming=coming, passed_over=over))
        wanted = {place: frozenset(part for part, route in left.items() if place in route) for place in PLACES}
        running = {name: replace(holder, wanted_by=wanted[name]) for name, holder in running.items()}
        decision = decide(capacity, running, groups, patience)

        chosen = decision.group
        if any(could_be_served_without_loss(capacity, running, each) for each in groups):
            needed = [name for name in decision.end if running[name].wanted_by]
            assert not needed or chosen.passed_over >= patience
        for name in decision.end:  # with any one of them left running, there would be no room
            others = [holder for other, holder in running.items() if other == name or other not in decision.end]
            assert not (reserved(others) + chosen.need).fits(capacity)
        for name in decision.end:
            del running[name]
        running[chosen.name] = Holder(name=chosen.name, need=chosen.need)
        assert reserved(running.values()).fits(capacity)
        for each in groups:
            passed_over[each.name] = 0 if each.name == chosen.name else passed_over.get(each.name, 0) + 1
            # A group that was passed over `patience` times goes before groups that were not. At most all other places
            # go before it.
            assert passed_over[each.name] <= patience + len(PLACES)
        for part in chosen.waiting:
            left[part].pop(0)
        left = {part: route for part, route in left.items() if route}


@pytest.mark.parametrize(
    ("setting", "stored_gb", "memory_gb", "held"),
    [
        ("auto", 4.0, 8.0, True),  # just half of the memory
        ("auto", 4.1, 8.0, False),
        ("auto", 4000.0, None, True),  # nobody knows the memory
        ("all", 4000.0, 8.0, True),
        ("none", 0.0, None, False),
    ],
)
def test_shards_are_held_where_they_fit_into_half_of_the_memory_or_as_a_setting_says(
    setting: Literal["all", "none", "auto"], stored_gb: float, memory_gb: float | None, held: bool
) -> None:
    assert are_held(setting, int(stored_gb * 2**30), memory_gb) is held
