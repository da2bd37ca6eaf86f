"""The sheet for a person: who is in it, and what comes out of it, worked out by hand."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_ray.errors import DataError
from r2med_ray.negatives.audit_sheets import agreement, item_of, sample, wilson
from r2med_ray.negatives.drafts import Draft, Slot

DRAFT = Draft(slot=Slot("q", "d0", "mimic", 1, 0), attempt=0, seed=1, text="a", verdict="released")


def drafts(released: int, found: int, others: int = 0) -> list[Draft]:
    verdicts = ["released"] * released + ["found positive: rank"] * found + ["length"] * others
    return [replace(DRAFT, text=f"text {number}", verdict=verdict) for number, verdict in enumerate(verdicts)]


@pytest.mark.parametrize(
    ("released", "found", "expected"),
    [
        pytest.param(20, 20, {"released": 5, "found positive: rank": 5}, id="half and half"),
        pytest.param(20, 2, {"released": 8, "found positive: rank": 2}, id="few found positives"),
        pytest.param(3, 20, {"released": 3, "found positive: rank": 7}, id="few released"),
        pytest.param(2, 1, {"released": 2, "found positive: rank": 1}, id="few of both"),
    ],
)
def test_a_sample_of_ten(released: int, found: int, expected: dict[str, int]) -> None:
    chosen = sample(drafts(released, found, others=9), 10, seed=1)

    assert Counter(draft.verdict for draft in chosen) == expected
    assert chosen == sample(drafts(released, found, others=9)[::-1], 10, seed=1)


def come_back(folder: Path, verdicts: list[tuple[str, str]]) -> Path:
    """Write the records and the sheet of drafts: (verdict of the judges, verdict of the person)."""
    made = [replace(DRAFT, text=f"text {number}", verdict=judges) for number, (judges, _) in enumerate(verdicts)]
    (folder / "records.jsonl").write_text("".join(f"{json.dumps(draft.record())}\n" for draft in made))
    sheet = folder / "audit.csv"
    rows = [
        f"{item_of(draft)},q,a question,{draft.text},{person},\n"
        for draft, (_, person) in zip(made, verdicts, strict=True)
    ]
    sheet.write_text("item,query_id,query,passage,verdict,note\n" + "".join(rows))
    return sheet


def test_agreement_kappa_and_the_share_of_false_negatives(tmp_path: Path) -> None:
    found = "found positive: judge"
    sheet = come_back(
        tmp_path,
        [
            *[("released", "negative")] * 6,
            *[("released", "positive")] * 2,
            *[(found, "positive")] * 1,
            *[(found, "Negative ")] * 1,
            ("released", "unsure"),
            ("released", ""),
        ],
    )

    result = agreement(sheet)

    # 6 + 1 of 10 agree. Judges say positive 0.2, the person 0.3: chance is 0.2 × 0.3 + 0.8 × 0.7 = 0.62, and kappa
    # (0.7 - 0.62) / (1 - 0.62) = 0.2105.
    assert (result.judged, result.unsure, result.without_verdict) == (10, 1, 1)
    assert result.agreement == pytest.approx(0.7)
    assert result.kappa == pytest.approx(0.08 / 0.38)
    # 2 of 8 released passages are positive for the person.
    assert (result.released_judged, result.released_positive) == (8, 2)
    assert (result.released_positive_low, result.released_positive_high) == pytest.approx(wilson(2, 8))


def test_wilsons_interval() -> None:
    # z = 1.959964, z² = 3.841459: the interval of 0 of 80 goes from 0 to z² / (80 + z²) = 0.045818.
    assert wilson(0, 80) == pytest.approx((0, 3.841459 / 83.841459), abs=1e-6)
    # 1 of 2: 0.5 ± z / (2 + z²) · sqrt(2 / 4 + z² / 4) = 0.5 ± 0.335515 · 1.208520 = 0.5 ± 0.405476.
    assert wilson(1, 2) == pytest.approx((0.094529, 0.905471), abs=1e-5)
    assert wilson(0, 0) == (None, None)


def test_a_sheet_that_is_missing_or_in_another_encoding_is_refused_by_name(tmp_path: Path) -> None:
    sheet = come_back(tmp_path, [("released", "negative")])
    sheet.write_bytes(sheet.read_bytes() + "é".encode("latin-1"))
    with pytest.raises(DataError, match=r"audit\.csv: can't be read as CSV: .*utf-8"):
        agreement(sheet)

    sheet.unlink()
    with pytest.raises(DataError, match=r"audit\.csv: can't be read as CSV: .*No such file"):
        agreement(sheet)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("negative", "wrong", r"audit\.csv:2: verdict 'wrong'; expected negative, positive, unsure or nothing"),
        ("item-", "other-", r"audit\.csv:2: item 'other-.*' is none of the round's"),
    ],
)
def test_a_sheet_with_a_wrong_row_is_refused_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    sheet = come_back(tmp_path, [("released", "negative")])
    sheet.write_text(sheet.read_text().replace(old, new))

    with pytest.raises(DataError, match=message):
        agreement(sheet)


def test_an_item_that_comes_twice_is_refused(tmp_path: Path) -> None:
    sheet = come_back(tmp_path, [("released", "negative")])
    lines = sheet.read_text().splitlines(keepends=True)
    sheet.write_text("".join([*lines, lines[1]]))

    with pytest.raises(DataError, match=r"audit\.csv:3: item 'item-.*' comes twice"):
        agreement(sheet)
