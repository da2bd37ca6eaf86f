"""A name gives its row, and a typo gives an error with the nearest name."""

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.settings.registry import Registry

TASKS = Registry(
    "task", [("Biology", 1), ("Bioinformatics", 2), ("PMC-Treatment", 3)], {"PMC-Treat": "PMC-Treatment"}
)


def test_r02_an_old_name_is_an_alias() -> None:
    assert TASKS["PMC-Treat"] == 3
    assert "PMC-Treat" in TASKS
    assert list(TASKS) == ["Biology", "Bioinformatics", "PMC-Treatment"]


def test_an_unknown_name_gets_the_nearest_one_and_the_list() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown task 'biolgy'\. Did you mean 'Biology'\? Known: Bioinformatics, "
    ):
        TASKS["biolgy"]


def test_a_glob_keeps_the_order_of_the_table() -> None:
    assert TASKS.matching("Bio*") == ["Biology", "Bioinformatics"]
    assert TASKS.matching("PMC-Treat") == ["PMC-Treatment"]


def test_a_glob_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"no task matches 'X\*'"):
        TASKS.matching("X*")


def test_a_name_can_be_defined_once() -> None:
    with pytest.raises(ConfigError, match="task 'a' is defined twice"):
        Registry("task", [("a", 1), ("a", 2)])
