"""The terms of a text are those of Anserini's DefaultEnglishAnalyzer."""

import json
from pathlib import Path

import pytest

from r2med_ray.indexing.analysis import STOP_WORDS, analyze

GOLDEN = Path(__file__).parents[1] / "data" / "lucene_tokens.json"


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        # These terms were made with Pyserini 0.24.0 on Java 17. The description of R2MED's protocol lists them.
        (
            "The patient's COVID-19 X-ray, 3.5 mg/dL: running runs ran; it's and not a β-blocker (IL-6) U.S. 10,000 "
            "IgG/IgM",
            "patient covid 19 x rai 3.5 mg dl run run ran β blocker il 6 u. 10,000 igg igm",
        ),
        (
            "Chief Complaint: 56-year-old woman's fever (39.5°C) × 3 days — T2-weighted MRI, p<0.05, HbA1c=7.2%, "
            "https://en.wikipedia.org/wiki/Elastin snake_case can't CAN’T naïve 中文字符 e.g. vs. a.m.",
            "chief complaint 56 year old woman fever 39.5 c 3 dai t2 weight mri p 0.05 hba1c 7.2 http "
            "en.wikipedia.org wiki elastin snake_cas can't can’t naïv 中 文 字 符 e.g vs a.m",
        ),
        (
            "generalizations generalization general relational conditional hopping ponies caresses cats agreed "
            "plastered bled motoring",
            "gener gener gener relat condit hop poni caress cat agre plaster bled motor",
        ),
        # These terms were made by hand: running → run, dogs' has no possessive s, cells → cell.
        pytest.param("The running dogs' COVID-19 β-cells", "run dog covid 19 β cell", id="bm07"),
    ],
)
def test_terms_of_known_texts(text: str, terms: str) -> None:
    assert analyze(text) == terms.split(" ")


@pytest.mark.parametrize(("text", "terms"), json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"])
def test_terms_are_lucenes(text: str, terms: list[str]) -> None:
    assert analyze(text) == terms


@pytest.mark.parametrize("text", ["", "the of", "!!", "___", " \n\t"])
def test_bm01_a_text_may_have_no_term(text: str) -> None:
    assert analyze(text) == []


def test_there_are_33_stop_words() -> None:
    assert len(STOP_WORDS) == 33


def test_characters_are_lowered_one_by_one() -> None:
    # Java lowers Σ to σ at the end of a word too, but Python's str.lower gives ς. İ becomes i, not i and a dot.
    assert analyze("ΟΔΟΣ İnce") == ["οδοσ", "inc"]
