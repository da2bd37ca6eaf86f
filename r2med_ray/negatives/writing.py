"""Writes the texts of a round: a hard query for the positive, and, with passages as examples, the hard negative."""

from collections.abc import Sequence
from dataclasses import replace

from r2med_ray.demands import Find, Read, Steps
from r2med_ray.negatives.drafts import Draft, open_of
from r2med_ray.negatives.material import Material, Said, asked
from r2med_ray.negatives.text_filters import band, filtered
from r2med_ray.types import DocId, Query, positives_of

UNUSABLE = "unusable"
NO_EXAMPLES = "(none)"


def written(material: Material, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    """Return the drafts with a text that passed the filters of a text alone, or with the verdict on it."""
    drafts = yield from _with_hard_query(material, drafts)
    anchored = yield from _with_anchors(material, open_of(drafts))
    passages = yield from _with_passage(material, anchored)
    limits = material.config.filters
    kept = [
        draft
        if draft.verdict
        else filtered(draft, material.positive(draft), [material.query(draft), *material.sources(draft)], limits)
        for draft in passages
    ]
    return [*(draft for draft in drafts if draft.verdict), *kept]


def _with_hard_query(material: Material, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    prompts = [
        material.prompt(draft, "hard query", query=material.query(draft), passage=material.positive(draft))
        for draft in drafts
    ]
    said = yield from asked(material.tools.writer, prompts)
    return [
        usable(replace(draft, hard_query=each.text), "hard query", each)
        for draft, each in zip(drafts, said, strict=True)
    ]


def _with_anchors(material: Material, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    """Search for the hard queries, and note the first documents that are no positive of the query."""
    if not drafts:
        return []
    task, count = material.task, material.config.anchors.count
    known = {draft.slot.query_id: positives_of(task.qrels[draft.slot.query_id]) for draft in drafts}
    queries = tuple(Query(query_id=draft.document.doc_id, text=draft.hard_query) for draft in drafts)
    k = count + max(map(len, known.values()))
    run = yield Find(task=task, first_stage=material.tools.anchors, queries=queries, k=k)

    def anchors(draft: Draft) -> tuple[DocId, ...]:
        found = [hit.doc_id for hit in run.rankings[draft.document.doc_id]]
        return tuple(doc_id for doc_id in found if doc_id not in known[draft.slot.query_id])[:count]

    return [replace(draft, anchors=anchors(draft)) for draft in drafts]


def _with_passage(material: Material, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    wanted = frozenset(doc_id for draft in drafts for doc_id in draft.anchors)
    documents = (yield Read(task=material.task, doc_ids=wanted)) if wanted else {}
    words = material.config.anchors.words
    prompts = []
    for draft in drafts:
        examples = [" ".join(documents[doc_id].content.split()[:words]) for doc_id in draft.anchors]
        fewest, most = band(material.positive(draft), material.config.filters)
        prompt = material.prompt(
            draft,
            draft.slot.kind,
            {"examples": NO_EXAMPLES},
            query=material.query(draft),
            passage=material.positive(draft),
            examples="\n\n".join(examples) or NO_EXAMPLES,
            fewest=str(fewest),
            most=str(most),
        )
        prompts.append(prompt)
    said = yield from asked(material.tools.writer, prompts)
    return [
        usable(replace(draft, text=each.text, shortened=each.shortened), "passage", each)
        for draft, each in zip(drafts, said, strict=True)
    ]


def usable(draft: Draft, what: str, said: Said) -> Draft:
    """Return a draft with a check of what the model said: a refusal, a cut text and the like are not used."""
    is_usable = said.flag == "none" and bool(said.text)
    return draft.checked(what, said.flag, is_usable, f"{UNUSABLE} {what}: {said.flag}")
