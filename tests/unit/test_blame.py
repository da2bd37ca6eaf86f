"""What is to blame for a failing batch is found by halving it."""

from collections.abc import Sequence

import pytest

from r2med_ray.blame import Failing, blame, in_words, with_names
from r2med_ray.errors import DataError


class Tried:
    """Fails whenever all of some positions are tried together, and remembers what was tried."""

    def __init__(self, *bad: set[int]) -> None:
        self.calls: list[tuple[int, ...]] = []
        self._bad = bad

    def __call__(self, positions: Sequence[int]) -> str | None:
        self.calls.append(tuple(positions))
        return next((f"{sorted(bad)} fail" for bad in self._bad if bad <= set(positions)), None)


def test_the_item_that_fails_alone_is_found() -> None:
    tried = Tried({5})
    found = blame(tried, 8, "all fail", most=1)

    assert found.alone == [Failing(range(5, 6), "[5] fail")]
    assert found.some_work
    # 0-3 work. 4-7 fail, 4-5 fail, 4 works, 5 fails; then nothing more is looked for.
    assert tried.calls == [(0, 1, 2, 3), (4, 5, 6, 7), (4, 5), (4,), (5,)]


def test_all_items_that_fail_alone_are_found_in_their_order() -> None:
    found = blame(Tried({1}, {5}, {6}), 8, "all fail", most=8)

    assert [failing.positions.start for failing in found.alone] == [1, 5, 6]
    assert found.together == []


def test_items_that_only_fail_together_are_told_from_those_that_fail_alone() -> None:
    found = blame(Tried({2, 3}), 8, "all fail", most=8)

    assert found.alone == []
    assert found.together == [Failing(range(2, 4), "[2, 3] fail")]


def test_a_model_that_fails_on_everything_is_found_out_with_few_trials() -> None:
    tried = Tried({0}, {1}, {2}, {3}, {4}, {5}, {6}, {7})

    assert not blame(tried, 8, "all fail", most=1).some_work
    # 0-3, 0-1, 0, and the last one
    assert tried.calls == [(0, 1, 2, 3), (0, 1), (0,), (7,)]


def test_a_failure_without_items_has_nothing_to_blame() -> None:
    assert blame(Tried(set()), 0, "fails", most=1).found == 0


def test_a_models_own_error_is_one_line_with_its_class_and_its_place() -> None:
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError("CUDA error\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1")

    assert in_words(caught.value).startswith(f"RuntimeError: CUDA error ({__file__}:")
    assert in_words(DataError("d1 is empty")) == "d1 is empty"


def test_a_cause_that_has_the_name_already_stays_as_it_is() -> None:
    assert with_names("query", ["q1"], "it is empty") == "query 'q1': it is empty"
    assert with_names("query", ["q1"], "query 'q1' is empty") == "query 'q1' is empty"
    assert (
        with_names("query", ["q1", "q2", "q3"], "no room")
        == "3 queries, from 'q1' to 'q3', fail only together: no room"
    )
