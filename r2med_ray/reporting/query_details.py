"""What the page shows of one query, as plain values whose texts are pooled over a block of queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from r2med_ray.reporting.texts import SHOWN, TaskTexts, Written
from r2med_ray.secrets import scrubbed
from r2med_ray.sentences import Told, best_sentences
from r2med_ray.storage.keys import Json
from r2med_ray.types import DocId, QueryId, Run, positives_of

PASSAGE, QUESTION, TEXT, REASONING = 2_000, 20_000, 4_000, 8_000
"""Characters that are kept of a passage, of a query, of a text that was written for it, and of the reasoning."""

RELEVANT = 30
"""Relevant documents that are listed for a query."""

TERMS = 8
"""Terms of BM25 that are listed for a document."""


@dataclass(slots=True)
class Pool:
    """The texts of a block, each once."""

    passages: Mapping[DocId, str]
    texts: list[tuple[str, int]] = field(default_factory=list)
    """The beginning of a text, and how many characters are cut off it."""

    documents: list[tuple[DocId, int]] = field(default_factory=list)
    """An id, and the position of its text in `texts`; −1 if the corpus lacks the document."""

    size: int = 0
    """Characters of all texts."""

    _place_of_text: dict[str, int] = field(default_factory=dict)
    _place_of_document: dict[DocId, int] = field(default_factory=dict)

    def text(self, text: str, most: int) -> int:
        """Return the position of a text."""
        if text not in self._place_of_text:
            self._place_of_text[text] = len(self.texts)
            self.texts.append((text[:most], max(0, len(text) - most)))
            self.size += min(len(text), most)
        return self._place_of_text[text]

    def document(self, doc_id: DocId) -> int:
        """Return the position of a document."""
        if doc_id not in self._place_of_document:
            text = self.passages.get(doc_id)
            self._place_of_document[doc_id] = len(self.documents)
            self.documents.append((doc_id, -1 if text is None else self.text(text, PASSAGE)))
        return self._place_of_document[doc_id]


def query_details(
    query_id: QueryId,
    grades: Mapping[DocId, int],
    texts: TaskTexts,
    runs: Mapping[int, Run],
    names: Sequence[str],
    pool: Pool,
) -> Json:
    """Return the question, its relevant documents, and what each system found.

    Args:
        query_id: the query.
        grades: its judgements.
        texts: those of its task.
        runs: position of a system → its run.
        names: the systems' names by position.
        pool: takes the texts.
    """
    question = texts.questions[query_id]
    relevant = sorted(positives_of(grades), key=lambda each: (-grades[each], each))
    listed = relevant[:RELEVANT]
    systems = {}
    for position, run in runs.items():
        hits = run.rankings.get(query_id, ())
        rank_of = {hit.doc_id: rank for rank, hit in enumerate(hits, start=1)}
        terms = texts.terms.get(names[position], {}).get(query_id, {})
        shown = [hit.doc_id for hit in hits[:SHOWN]]
        systems[position] = {
            "found": [pool.document(doc_id) for doc_id in shown],
            "scores": [float(f"{hit.score:.5g}") for hit in hits[:SHOWN]],
            "ranks": [rank_of.get(doc_id, 0) for doc_id in listed],
            **({"terms": [_terms(terms.get(doc_id, {})) for doc_id in shown]} if terms else {}),
            **_told(texts.sentences.get(names[position]), query_id, shown, texts.passages),
            **_written(texts.written.get(names[position], {}).get(query_id), pool),
        }
    return {
        "text": pool.text(question.text, QUESTION),
        "answer": question.answer,
        "relevant": [[pool.document(doc_id), grades[doc_id]] for doc_id in listed],
        "unlisted": len(relevant) - len(listed),
        "systems": systems,
    }


def _terms(parts: Mapping[str, float]) -> list[Json]:
    return [[term, round(part, 2)] for term, part in islice(parts.items(), TERMS)]


def _told(
    told: Told | None, query_id: QueryId, shown: Sequence[DocId], passages: Mapping[DocId, str]
) -> dict[str, Json]:
    """Return the best sentences of each document, and whose scores they make; or why nobody knows them."""
    if told is None:
        return {}
    shares = told.shares.get(query_id, {})
    best = [best_sentences(passages[doc_id], shares.get(doc_id, ())) for doc_id in shown]
    return {
        "scorer": told.model,
        **({"sentences": [list(map(list, each)) for each in best]} if any(best) else {}),
        **({"untold": scrubbed(told.why_not)} if told.why_not else {}),
    }


def _written(written: Written | None, pool: Pool) -> dict[str, Json]:
    if written is None:
        return {}
    return {
        "written": [pool.text(scrubbed(text), TEXT) for text in written.texts],
        "reasoning": [pool.text(scrubbed(text), REASONING) for text in written.reasoning],
    }
