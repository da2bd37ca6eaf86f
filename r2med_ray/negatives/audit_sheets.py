"""A sheet for a person who judges a sample of passages, and what the person's verdicts say when it comes back.

The sample holds released passages and found positives, in equal shares as far as there are any, in a seeded order.
The sheet shows neither kind nor verdict, so that nobody is led by them.
"""

import html
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

from r2med_ray.errors import DataError
from r2med_ray.negatives.drafts import FOUND_POSITIVE, RELEASED, Draft, seed_of
from r2med_ray.negatives.generating import Round
from r2med_ray.negatives.material import Material
from r2med_ray.reporting.columns import Column, csv_table
from r2med_ray.storage.csv_rows import read_csv
from r2med_ray.storage.jsonl import read_jsonl
from r2med_ray.storage.keys import fingerprint

SHEET, PAGE, RECORDS = "audit.csv", "audit.html", "records.jsonl"
NEGATIVE, POSITIVE, UNSURE = "negative", "positive", "unsure"
QUESTION = (
    "Does the passage support the right answer to the question? Write `positive` if it does, `negative` if it "
    "doesn't and `unsure` if you can't tell, into the column `verdict` of audit.csv."
)


class Agreement(NamedTuple):
    """What a person's verdicts say about those of the judges."""

    judged: int
    """Passages with a verdict of the person that is not `unsure`."""

    unsure: int
    without_verdict: int
    agreement: float | None
    """Share of the judged passages on which person and judges agree; None if there are none."""

    kappa: float | None
    """Cohen's kappa; None if agreement by chance would be certain."""

    released_judged: int
    released_positive: int
    """Released passages that the person calls positive: false hard negatives."""

    released_positive_low: float | None
    """Wilson's 95 % interval of their share."""

    released_positive_high: float | None


def sheet_files(material: Material, made: Round) -> dict[str, bytes]:
    """Return the sheet as CSV and as a page; nothing if no passage is sampled."""
    drafts = sample(made.drafts, material.config.audit, material.config.seed)
    if not drafts:
        return {}
    columns = [
        Column(title="item", values=[item_of(draft) for draft in drafts]),
        Column(title="query_id", values=[draft.slot.query_id for draft in drafts]),
        Column(title="query", values=[material.query(draft) for draft in drafts]),
        Column(title="passage", values=[draft.text for draft in drafts]),
        Column(title="verdict", values=[None for _ in drafts]),
        Column(title="note", values=[None for _ in drafts]),
    ]
    rows = "\n".join(
        f"<article><h2>{number}: {item_of(draft)}</h2><h3>Question</h3><p>{html.escape(material.query(draft))}</p>"
        f"<h3>Passage</h3><p>{html.escape(draft.text)}</p></article>"
        for number, draft in enumerate(drafts, start=1)
    )
    title = html.escape(f"Passages for {material.task.name}")
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body><h1>{title}</h1><p>{html.escape(QUESTION)}</p>\n{rows}\n</body></html>\n"
    )
    return {SHEET: _encoded(csv_table(columns)), PAGE: _encoded(page)}


def sample(drafts: Sequence[Draft], count: int, seed: int) -> list[Draft]:
    """Return the passages of the sheet: half of them found positives if there are enough, by a seeded order."""

    def drawn(draft: Draft) -> tuple[int, str]:
        return seed_of(seed, "audit", item_of(draft)), draft.name

    released = sorted((draft for draft in drafts if draft.verdict == RELEASED), key=drawn)
    found = sorted((draft for draft in drafts if draft.verdict.startswith(FOUND_POSITIVE)), key=drawn)
    num_found = min(len(found), max(count // 2, count - len(released)))
    return sorted([*released[: count - num_found], *found[:num_found]], key=drawn)


def item_of(draft: Draft) -> str:
    """Return what the sheet calls a draft: a digest of its query and its text."""
    return _item(draft.slot.query_id, draft.text)


def agreement(sheet: Path) -> Agreement:
    """Compare the verdicts of a sheet that came back with those in the records beside it.

    Raises:
        DataError: the sheet can't be read, a row has an unknown item or verdict, or an item comes twice; names file
            and line.
    """
    machine: dict[str, bool] = {}
    for record in read_jsonl(sheet.with_name(RECORDS)):
        verdict = record.values["verdict"]
        if verdict == RELEASED or verdict.startswith(FOUND_POSITIVE):
            machine[_item(record.values["query_id"], record.values["text"])] = verdict != RELEASED
    said = _verdicts(sheet, machine)
    counts = Counter((machine[item], verdict == POSITIVE) for item, verdict in said.items() if verdict in _JUDGED)
    judged, words = sum(counts.values()), Counter(said.values())
    same = counts[True, True] + counts[False, False]
    low, high = wilson(counts[False, True], counts[False, True] + counts[False, False])
    return Agreement(
        judged=judged,
        unsure=words[UNSURE],
        without_verdict=words[""],
        agreement=same / judged if judged else None,
        kappa=_kappa(counts),
        released_judged=counts[False, True] + counts[False, False],
        released_positive=counts[False, True],
        released_positive_low=low,
        released_positive_high=high,
    )


def wilson(successes: int, trials: int) -> tuple[float, float] | tuple[None, None]:
    """Return Wilson's 95 % interval of a share (Wilson 1927); None where there are no trials."""
    if not trials:
        return None, None
    z = NormalDist().inv_cdf(0.975)
    centre = (successes + z * z / 2) / (trials + z * z)
    half = z / (trials + z * z) * math.sqrt(successes * (trials - successes) / trials + z * z / 4)
    return max(0.0, centre - half), min(1.0, centre + half)


_JUDGED = (NEGATIVE, POSITIVE)


def _kappa(counts: Counter[tuple[bool, bool]]) -> float | None:
    """Return Cohen's kappa of (judges say positive, person says positive) → number."""
    total = sum(counts.values())
    if not total:
        return None
    judges = (counts[True, True] + counts[True, False]) / total
    person = (counts[True, True] + counts[False, True]) / total
    chance = judges * person + (1 - judges) * (1 - person)
    same = (counts[True, True] + counts[False, False]) / total
    return None if chance == 1 else (same - chance) / (1 - chance)


def _verdicts(sheet: Path, known: dict[str, bool]) -> dict[str, str]:
    """Return item → the person's word, in lower case."""
    said: dict[str, str] = {}
    for row in read_csv(sheet):
        item, verdict = row.values.get("item"), row.values.get("verdict", "").strip().lower()
        if item is None or item not in known:
            raise DataError(f"{row.where}: item {item!r} is none of the round's; the sheet lies beside {RECORDS}")
        if item in said:
            raise DataError(f"{row.where}: item {item!r} comes twice")
        if verdict not in ("", UNSURE, *_JUDGED):
            raise DataError(f"{row.where}: verdict {verdict!r}; expected {NEGATIVE}, {POSITIVE}, {UNSURE} or nothing")
        said[item] = verdict
    return said


def _item(query_id: str, text: str) -> str:
    return f"item-{fingerprint([query_id, text])[:16]}"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def as_json(found: Agreement) -> str:
    """Return an agreement as JSON."""
    return json.dumps(found._asdict(), indent=1)
