"""Sorts that ask which of a few candidates is the best."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.reranking.setwise import SORTS, Picking, Sort


def sorted_by(sort: Sort, grades: list[float], size: int, top: int, pick: Callable[[list[float]], int]) -> list[int]:
    """Sort positions; `pick` chooses a place among shown grades."""
    picking: Picking = SORTS[sort](range(len(grades)), size, top)
    try:
        shown = next(picking)
        while True:
            assert 2 <= len(shown) <= size
            assert len({*shown}) == len(shown)
            shown = picking.send(pick([grades[position] for position in shown]))
    except StopIteration as end:
        return list(end.value)


def the_best(grades: list[float]) -> int:
    return grades.index(max(grades))


@pytest.mark.parametrize("sort", ["heap", "bubble"])
@given(
    grades=st.lists(st.integers(0, 99), min_size=2, max_size=40, unique=True), size=st.integers(2, 8), data=st.data()
)
def test_who_always_picks_the_best_finds_the_best_ones(
    sort: Sort, grades: list[float], size: int, data: st.DataObject
) -> None:
    top = data.draw(st.integers(1, len(grades)))
    order = sorted_by(sort, grades, size, top, the_best)

    assert [grades[position] for position in order[:top]] == sorted(grades, reverse=True)[:top]


@pytest.mark.parametrize("sort", ["heap", "bubble"])
@given(count=st.integers(2, 30), size=st.integers(2, 8), top=st.integers(1, 40), data=st.data())
def test_whatever_is_picked_every_position_stays_once(
    sort: Sort, count: int, size: int, top: int, data: st.DataObject
) -> None:
    order = sorted_by(sort, [0.0] * count, size, top, lambda shown: data.draw(st.integers(0, len(shown) - 1)))

    assert sorted(order) == [*range(count)]


@pytest.mark.parametrize("sort", ["heap", "bubble"])
def test_whoever_picks_the_first_always_changes_nothing(sort: Sort) -> None:
    assert sorted_by(sort, [0.0] * 7, 3, 1, lambda _: 0) == [*range(7)]


@pytest.mark.parametrize("sort", ["heap", "bubble"])
def test_a_sort_keeps_the_order_of_what_it_does_not_find(sort: Sort) -> None:
    # the best is at 4; all others stay in their order
    assert sorted_by(sort, [3, 1, 2, 0, 9], 3, 1, the_best) == [4, 0, 1, 2, 3]
