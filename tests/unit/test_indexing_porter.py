import pytest

from r2med_ray.indexing.porter import stem


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        # Examples of Porter's paper, by step. A later step works on the result of an earlier one: conflat(ed) →
        # conflate in step 1b → conflat in step 5a.
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("cats", "cat"),
        ("feed", "feed"),
        ("agreed", "agre"),
        ("plastered", "plaster"),
        ("bled", "bled"),
        ("motoring", "motor"),
        ("sing", "sing"),
        ("conflated", "conflat"),
        ("sized", "size"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("hissing", "hiss"),
        ("failing", "fail"),
        ("freeing", "free"),
        ("filing", "file"),
        ("happy", "happi"),
        ("sky", "sky"),
        ("relational", "relat"),
        ("conditional", "condit"),
        ("vietnamization", "vietnam"),
        ("sensibiliti", "sensibl"),
        ("formalize", "formal"),
        ("electriciti", "electr"),
        ("goodness", "good"),
        ("adoption", "adopt"),
        ("effective", "effect"),
        ("probate", "probat"),
        ("rate", "rate"),
        ("cease", "ceas"),
        ("controll", "control"),
        ("roll", "roll"),
    ],
)
def test_the_examples_of_the_paper(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("cardiology", "cardiolog"),  # logi → log
        ("possibly", "possibl"),  # bli → ble → bl; the paper's abli → able gives possibli
        ("is", "is"),  # a word of two letters stays
    ],
)
def test_the_later_changes_of_the_author_are_in(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("yed", "yed"),  # a y at the start of a word is a consonant, so y- has no vowel and keeps its ed
        ("dyed", "dy"),  # a y after a consonant is a vowel
        ("byyed", "by"),  # byy: the second y follows a vowel, so it is a doubled consonant
    ],
)
def test_y_is_a_vowel_after_a_consonant(word: str, expected: str) -> None:
    assert stem(word) == expected
