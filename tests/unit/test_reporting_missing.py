"""Results that are left out are listed with what they need."""

import pickle

import pytest

from r2med_ray.errors import DataError, NotAtHand
from r2med_ray.reporting.missing import Missing, needs
from r2med_ray.reporting.record import MissingRecord


def test_what_is_not_at_hand_is_noted_for_every_system_that_waits_for_it():
    missing = Missing("skip")
    with missing.noted("Biology", ["bm25", "bge"]):
        raise NotAtHand("R2MED/Biology", "how to get it")

    assert missing.records == [
        MissingRecord(system="bm25", task="Biology", needs="R2MED/Biology"),
        MissingRecord(system="bge", task="Biology", needs="R2MED/Biology"),
    ]


def test_under_error_the_first_thing_that_is_missing_ends_the_benchmark():
    with pytest.raises(NotAtHand, match="how to get it"), Missing("error").noted("Biology", ["bm25"]):
        raise NotAtHand("R2MED/Biology", "how to get it")


def test_a_real_failure_is_never_left_out():
    missing = Missing("skip")
    with pytest.raises(DataError, match="line 3"), missing.noted("Biology", ["bm25"]):
        raise DataError("corpus.jsonl:line 3: no text")

    assert missing.records == []


def test_a_benchmark_of_which_nothing_is_left_is_refused_with_the_list():
    missing = Missing("skip")
    with missing.noted("Biology", ["bm25"]):
        raise NotAtHand("R2MED/Biology")

    with pytest.raises(NotAtHand, match=r"nothing could be computed[^:]*:\s+needs R2MED/Biology: bm25 on Biology"):
        missing.require_some(0)
    missing.require_some(1)


def test_a_few_systems_are_named_and_many_are_counted():
    records = [
        MissingRecord(system=system, task=task, needs="x") for system in ("a", "b", "c", "d") for task in ("t", "u")
    ]

    assert needs(records) == ["needs x: 4 systems on t, u"]
    assert needs(records[:4]) == ["needs x: a, b on t, u"]


def test_the_error_survives_the_way_between_processes():
    error = pickle.loads(pickle.dumps(NotAtHand("weights", "where to put them")))

    assert (error.what, str(error)) == ("weights", "where to put them")
    assert str(NotAtHand("weights")) == "needs weights"
