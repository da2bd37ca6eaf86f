"""What is read out of the answers of judges."""

import pytest

from r2med_ray.negatives.judging import read_grade
from r2med_ray.negatives.release_checks import read_yes


@pytest.mark.parametrize(
    ("answer", "grade"),
    [
        ("Grade: 0", 0),
        ("It could be grade 1, but it names the drug.\n**Grade: 3**", 3),
        (" 2.", 2),
        ("Grade (0-3): 2", 2),
        ("grade [0 to 3] = 1", 1),
        ("Grade (3)", 3),
        ("Grade: 4", None),
        ("Grade: 12", None),
        ("The passage has 2 parts.", None),
        ("", None),
    ],
)
def test_a_grade_is_what_is_called_one_or_stands_alone(answer: str, grade: int | None) -> None:
    assert read_grade(answer) == grade


@pytest.mark.parametrize(
    ("answer", "said"), [("Yes.", True), ("**no**", False), ("yes and no", None), ("They do.", None), ("", None)]
)
def test_an_answer_that_says_both_or_neither_says_nothing(answer: str, said: bool | None) -> None:
    assert read_yes(answer) is said
