from pathlib import Path

import pytest

from r2med_ray.errors import DataError
from r2med_ray.storage.ids import IdReader, Tally


def test_mt09_an_integer_becomes_its_digits_and_text_stays_as_it_is():
    ids = IdReader(Path("folder/query.jsonl"))

    assert [ids.read(value, where="here") for value in (7, "7", "007", -1)] == ["7", "7", "007", "-1"]


def test_mt09_integers_of_a_file_give_one_warning_with_three_examples():
    ids = IdReader(Path("folder/query.jsonl"))
    for value in (1, 2, 3, 4, "5"):
        ids.read(value, where="here")

    assert ids.warnings() == ["4 ids of query.jsonl are JSON integers and were read as text, e.g. '1', '2', '3'"]


def test_ids_that_are_text_give_no_warning():
    ids = IdReader(Path("query.jsonl"))
    ids.read("7", where="here")

    assert ids.warnings() == []


@pytest.mark.parametrize("value", [7.0, True, None, "", "  ", ["7"], "a\0b", "a b", " a", "a\n", "a\tb", "\u3000"])
def test_mt19_da13_what_is_no_id_is_refused_with_its_place(value):
    with pytest.raises(DataError, match=r"corpus\.jsonl:3: .* is no id"):
        IdReader(Path("corpus.jsonl")).read(value, where="corpus.jsonl:3")


@pytest.mark.parametrize(
    "value",
    [
        "neanderthals_vitamin_C_diet/Neanderthal_0_43.txt",
        "../x",
        "a\u00a0b",
        "A",
        "a",
        "x" * 300,
        "🦴",
        "9#1",
        "#d1",
        "é",
    ],
)
def test_da13_mt11_any_other_text_is_an_id(value):
    assert IdReader(Path("corpus.jsonl")).read(value, where="here") == value


def test_half_of_a_surrogate_pair_is_refused_with_its_place():
    with pytest.raises(DataError, match=r"corpus\.jsonl:3: character 1 is half of a surrogate pair"):
        IdReader(Path("corpus.jsonl")).read("a\ud800", where="corpus.jsonl:3")


def test_nothing_counted_says_nothing():
    assert Tally().sentences("things are odd") == []
