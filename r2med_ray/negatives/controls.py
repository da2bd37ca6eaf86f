"""Controls: passages that look like the hard negatives in one respect alone. They are never hard negatives.

- `control: paraphrased positive`: the positive in a model's words. It is as relevant as the positive, so a system
  that prefers one of the two does so because of who wrote it.
- `control: random`: a document drawn at random that has about as many words as a hard negative.

They are a pack of their own. Measured together with the hard negatives, they are in the condition `pairs` alone, as
kinds whose `pair_acc` stands beside those of hard negatives and is in no other figure.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from r2med_ray.corpus.loading import fetch_documents, read_shard
from r2med_ray.demands import Steps
from r2med_ray.negatives.drafts import Draft, open_of, passage_id, seed_of
from r2med_ray.negatives.material import Material, asked
from r2med_ray.negatives.text_filters import band, filtered
from r2med_ray.negatives.writing import usable
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import CONTROL, DocId, QueryId, Task, positives_of

PARAPHRASE = f"{CONTROL}: paraphrased positive"
RANDOM = f"{CONTROL}: random"
PASSED = "passed"
"""The verdict on a paraphrase that may be a control."""

NEAREST = 20
"""How many documents a random one is drawn from."""


class RandomControl(NamedTuple):
    """A document that was drawn for a hard negative."""

    query_id: QueryId
    source: DocId
    text: str

    @property
    def doc_id(self) -> DocId:
        return passage_id(RANDOM, self.text)


def paraphrased(material: Material, released: Sequence[Draft]) -> Steps[list[Draft]]:
    """Return a paraphrase of each positive that a hard negative was made from, with the verdict on it."""
    places = {(draft.slot.query_id, draft.slot.positive_id): draft for draft in released}
    drafts = [
        replace(
            draft,
            slot=draft.slot._replace(kind=PARAPHRASE),
            hard_query="",
            anchors=(),
            text="",
            checks=(),
            verdict="",
        )
        for draft in places.values()
    ]
    prompts = []
    for draft in drafts:
        fewest, most = band(material.positive(draft), material.config.filters)
        words = {"fewest": str(fewest), "most": str(most)}
        prompts.append(material.prompt(draft, "paraphrase", passage=material.positive(draft), **words))
    said = yield from asked(material.tools.writer, prompts)
    written = [
        usable(replace(draft, text=each.text), "passage", each) for draft, each in zip(drafts, said, strict=True)
    ]
    limits = material.config.filters
    checked = [
        filtered(draft, material.positive(draft), material.sources(draft), limits) for draft in open_of(written)
    ]
    passed = [draft if draft.verdict else replace(draft, verdict=PASSED) for draft in checked]
    return [*(draft for draft in written if draft.verdict), *passed]


def length_matched(store: ArtifactStore, task: Task, released: Iterable[Draft], seed: int) -> list[RandomControl]:
    """Draw a document for each hard negative, out of those whose numbers of words are nearest.

    No positive of the query is drawn, and no document twice for a query; where nothing else is left, nothing is. The
    corpus is read shard by shard, and only the numbers of words stay in memory.
    """
    lengths = sorted(
        (len(document.content.split()), document.doc_id)
        for shard in task.corpus.shards
        for document in read_shard(store, shard).documents
    )
    drawn: dict[QueryId, list[DocId]] = {}
    for draft in released:
        of_query = drawn.setdefault(draft.slot.query_id, [])
        near = _nearest(lengths, draft, positives_of(task.qrels[draft.slot.query_id]).union(of_query))
        if near:
            of_query.append(near[seed_of(seed, RANDOM, draft.slot.query_id, draft.doc_id) % len(near)])
    documents = fetch_documents(store, task.corpus, {doc_id for of_query in drawn.values() for doc_id in of_query})
    return [
        RandomControl(query_id, doc_id, documents[doc_id].content)
        for query_id, of_query in drawn.items()
        for doc_id in of_query
    ]


def _nearest(lengths: Sequence[tuple[int, DocId]], draft: Draft, taken: Collection[DocId]) -> list[DocId]:
    """Return the documents whose numbers of words are nearest to a draft's, the nearest first."""
    words = len(draft.text.split())
    reach, middle = NEAREST + len(taken), bisect_left(lengths, (words, ""))
    near = [item for item in lengths[max(0, middle - reach) : middle + reach] if item[1] not in taken]
    return [doc_id for _, doc_id in sorted(near, key=lambda item: (abs(item[0] - words), item))[:NEAREST]]
