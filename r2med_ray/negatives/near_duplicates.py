"""Refuses texts that say again what a document or another text of the round says: by their words, and by embedding.

Documents are compared that the retriever of the examples or the embedder finds for a text: a near copy of a text is
among the first of both. A text is compared with all earlier ones by its words, and by its embedding with those that
are among the hundred most alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from r2med_ray.demands import Find, Read, Steps
from r2med_ray.negatives.drafts import Draft
from r2med_ray.negatives.material import Material
from r2med_ray.negatives.near_copies import Shelf, runs_of
from r2med_ray.types import DocId, Document, Query, Run

ALIKE = 100
"""How many texts of the round a text is compared with by its embedding."""


@dataclass(slots=True)
class Earlier:
    """The texts that nothing was alike, by the id of their draft."""

    texts: dict[DocId, str] = field(default_factory=dict)
    shelf: Shelf = field(default_factory=Shelf)

    def add(self, document: Document) -> None:
        self.texts[document.doc_id] = document.text
        self.shelf.add(document.doc_id, runs_of(document.text))


def apart(material: Material, drafts: Sequence[Draft], earlier: Earlier) -> Steps[list[Draft]]:
    """Return the drafts with checks of their likeness. Those that pass are added to `earlier`, in their order."""
    if not drafts:
        return []
    tools, limits = material.tools, material.config.filters
    documents = [draft.document for draft in drafts]
    queries = tuple(Query(query_id=document.doc_id, text=document.text) for document in documents)
    texts = earlier.texts | {document.doc_id: document.text for document in documents}
    among = material.corpus_of(texts)
    by_words, by_meaning, by_text = yield (
        Find(task=material.task, first_stage=tools.anchors, queries=queries, k=limits.neighbours),
        Find(task=material.task, first_stage=tools.embedder, queries=queries, k=limits.neighbours),
        Find(task=among, first_stage=tools.embedder, queries=queries, k=min(ALIKE, len(texts))),
    )
    found: list[Run] = [by_words, by_meaning]
    wanted = frozenset(hit.doc_id for run in found for ranking in run.rankings.values() for hit in ranking)
    near = (yield Read(task=material.task, doc_ids=wanted)) if wanted else {}
    checked = []
    for draft, document in zip(drafts, documents, strict=True):
        neighbours = {hit.doc_id for run in found for hit in run.rankings[document.doc_id]}
        draft = _by_words(draft, {name: near[name].content for name in neighbours}, earlier, limits.jaccard)
        if not draft.verdict:
            draft = _by_embedding(draft, by_meaning, by_text, earlier, limits.cosine)
        if not draft.verdict:
            earlier.add(document)
        checked.append(draft)
    return checked


def _by_words(draft: Draft, neighbours: dict[DocId, str], earlier: Earlier, limit: float) -> Draft:
    runs, shelf = runs_of(draft.text), Shelf()
    for name, text in neighbours.items():
        shelf.add(name, runs_of(text))
    alike = max(shelf.nearest(runs)[1], earlier.shelf.nearest(runs)[1])
    return draft.checked("near duplicate by words", alike, alike <= limit)


def _by_embedding(draft: Draft, documents: Run, texts: Run, earlier: Earlier, limit: float) -> Draft:
    own = draft.document.doc_id
    cosines = [hit.score for hit in documents.rankings[own]]
    cosines += [hit.score for hit in texts.rankings[own] if hit.doc_id in earlier.texts]
    alike = max(cosines, default=0.0)
    return draft.checked("near duplicate by embedding", float(alike), alike <= limit)
