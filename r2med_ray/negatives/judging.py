"""Judges passages: whether one supports its query after all, and how far it scores below its positive.

A passage that supports its query is a found positive, and is set aside. An answer of a judge that can't be read
speaks against a passage: nobody has judged it.
"""

import re
from collections.abc import Sequence

from r2med_ray.demands import Score, Steps
from r2med_ray.negatives.drafts import FOUND_POSITIVE, Draft, open_of
from r2med_ray.negatives.material import Material, asked
from r2med_ray.protocols import Candidates
from r2med_ray.types import Query, Reranking

UNREADABLE = "unreadable judge"
GREATEST_GRADE = 1
"""The greatest grade of a hard negative: on the topic, but no help. See `prompts/support.txt`."""

_GRADE = re.compile(r"grade(?:\s*[(\[][^)\]\n]*[)\]])?\W*([0-3])\b", re.IGNORECASE)
"""A scale in brackets before the grade, as in `Grade (0-3): 2`, is skipped."""
_ALONE = re.compile(r"\W*([0-3])\W*")


def judged(material: Material, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    """Return the drafts with the grades of all judges, and how far the positive scores above each text."""
    graded = yield from _graded(material, drafts)
    scored = yield from _scored(material, open_of(graded))
    return [*(draft for draft in graded if draft.verdict), *scored]


def read_grade(answer: str) -> int | None:
    """Return the grade that a judge gives, 0 to 3: the last that is called a grade, or a number that stands alone."""
    called = _GRADE.findall(answer)
    alone = _ALONE.fullmatch(answer)
    return int(called[-1]) if called else int(alone[1]) if alone else None


def _graded(material: Material, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    prompts = [material.prompt(draft, "support", query=material.query(draft), passage=draft.text) for draft in drafts]
    grades: list[list[int | None]] = [[] for _ in drafts]
    for judge in material.tools.judges:
        said = yield from asked(judge, prompts)
        for of_draft, each in zip(grades, said, strict=True):
            of_draft.append(read_grade(each.text))
    return [_with_grades(draft, of_draft) for draft, of_draft in zip(drafts, grades, strict=True)]


def _with_grades(draft: Draft, grades: Sequence[int | None]) -> Draft:
    read = [grade for grade in grades if grade is not None]
    if max(read, default=0) > GREATEST_GRADE:
        return draft.checked("support", max(read), False, f"{FOUND_POSITIVE}: judge")
    if len(read) < len(grades):
        return draft.checked("support", "unreadable", False, f"{UNREADABLE}: support")
    return draft.checked("support", max(read), True)


def _scored(material: Material, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    margin, scorer = material.config.margin, material.tools.scorer
    if margin is None or scorer is None or not drafts:
        return list(drafts)
    candidates = tuple(
        Candidates(
            Query(query_id=draft.document.doc_id, text=material.query(draft)),
            (material.positives[draft.slot.positive_id], draft.document),
            (0.0, 0.0),
        )
        for draft in drafts
    )
    reranking: Reranking = yield Score(scorer=scorer, candidates=candidates)
    return [
        draft.checked("margin", above, above >= margin.at_least, f"{FOUND_POSITIVE}: margin")
        for draft in drafts
        for positive, text in [reranking.scores[draft.document.doc_id]]
        for above in [float(positive - text)]
    ]
