"""Tries the judges on what is known: how they grade positives of the task, and documents drawn at random.

Judges are asked as they are about passages, and aren't told what is known. A judge that gives positives low grades
lets positives into a pack as hard negatives; one that gives random documents high grades sets hard negatives aside.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from r2med_ray.chat import ChatPrompt
from r2med_ray.demands import Steps
from r2med_ray.negatives.drafts import seed_of
from r2med_ray.negatives.judging import read_grade
from r2med_ray.negatives.material import Material, asked
from r2med_ray.types import DocId, Document, QueryId, positives_of

POSITIVES, RANDOM = "positives", "random documents"
UNREADABLE = "unreadable"

Grades: TypeAlias = Mapping[str, Mapping[str, Counter[str]]]
"""Judge → `positives` or `random documents` → grade, or `unreadable` → number of answers."""


class Known(NamedTuple):
    """A document of the corpus beside a query, of which it is known whether it is relevant."""

    query_id: QueryId
    document: Document
    group: str


def known_documents(material: Material) -> list[Known]:
    """Return positives drawn from the task, each with a random document for the same query."""
    task, seed = material.task, material.config.seed
    pairs = [
        (seed_of(seed, "calibration", query_id, doc_id), query_id, doc_id)
        for query_id, grades in task.qrels.items()
        for doc_id in positives_of(grades)
        if query_id in material.queries and doc_id in material.positives
    ]
    known = []
    taken: dict[QueryId, set[DocId]] = {}
    for _, query_id, doc_id in heapq.nsmallest(material.config.calibration, pairs):
        known.append(Known(query_id, material.positives[doc_id], POSITIVES))
        others = sorted(material.random.keys() - taken.setdefault(query_id, {*positives_of(task.qrels[query_id])}))
        if others:
            other = others[seed_of(seed, "calibration", query_id, doc_id, RANDOM) % len(others)]
            taken[query_id].add(other)
            known.append(Known(query_id, material.random[other], RANDOM))
    return known


def calibrated(material: Material) -> Steps[Grades]:
    """Return the grades that each judge gives what is known."""
    known = known_documents(material)
    prompts = [_prompt(material, each) for each in known]
    grades: dict[str, dict[str, Counter[str]]] = {}
    for judge in material.tools.judges:
        said = yield from asked(judge, prompts)
        grades[judge.name] = _counted(known, [read_grade(each.text) for each in said])
    return grades


def _counted(known: Sequence[Known], grades: Sequence[int | None]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {POSITIVES: Counter(), RANDOM: Counter()}
    for each, grade in zip(known, grades, strict=True):
        counts[each.group][UNREADABLE if grade is None else str(grade)] += 1
    return counts


def _prompt(material: Material, known: Known) -> ChatPrompt:
    words = material.tools.prompts["support"].fill(
        query=material.queries[known.query_id], passage=known.document.content
    )
    return ChatPrompt(
        unit=f"query {known.query_id!r} and document {known.document.doc_id!r}, support",
        messages=({"role": "user", "content": words},),
        seed=seed_of(material.config.seed, material.task.name, known.query_id, known.document.doc_id, "support"),
    )
