"""Reads the passages that generated texts are compared with, once per task: judged ones, and ones drawn at random."""

import random
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from r2med_ray.corpora import Corpus
from r2med_ray.corpus.loading import fetch_documents
from r2med_ray.corpus.shards import held_ids, ids_at
from r2med_ray.evaluation.leakage import Leakage, find_leaks, normalised
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import DocId, QueryId, Rewriting, Task, positives_of

Passages: TypeAlias = Mapping[QueryId, Sequence[str]]
"""query_id → texts of passages, `normalised`."""

TRIES = 8
"""Rows that are drawn for each passage that is wanted. A passage that is judged or drawn already doesn't count."""


class Leaks:
    """Finds generated texts that hold runs of passages, see `evaluation.leakage`.

    Args:
        store: has the corpora.
        seed: what random passages are drawn with.
    """

    def __init__(self, store: ArtifactStore, seed: int) -> None:
        self._store = store
        self._seed = seed
        self._read: dict[str, tuple[Passages, Passages]] = {}

    def of(self, task: Task, rewriting: Rewriting) -> Leakage | None:
        """Return what the texts of a system hold; None if no query has a text.

        The passages of a task are kept in memory, because all its systems are compared with them.

        Raises:
            ArtifactError: the stored corpus is damaged.
        """
        if not any(query.expansions for query in rewriting.queries):
            return None
        if task.name not in self._read:
            self._read[task.name] = self._passages(task)
        judged, drawn = self._read[task.name]
        return find_leaks(rewriting.queries, judged, drawn, seed=self._seed)

    def _passages(self, task: Task) -> tuple[Passages, Passages]:
        """Return the judged passages of every query, and as many random ones; of both those that the corpus has."""
        ids = {query.query_id: positives_of(task.qrels.get(query.query_id, {})) for query in task.queries}
        relevant = set[DocId]().union(*ids.values())
        there = held_ids(self._store, task.corpus, relevant)
        judged = {query_id: sorted(doc_ids & there) for query_id, doc_ids in ids.items()}
        drawn = self._drawn(task, {query_id: len(doc_ids) for query_id, doc_ids in judged.items()})
        wanted = {doc_id for of_query in (*judged.values(), *drawn.values()) for doc_id in of_query}
        documents = fetch_documents(self._store, task.corpus, wanted)
        texts = {doc_id: normalised(document.content) for doc_id, document in documents.items()}
        return _texts(judged, texts), _texts(drawn, texts)

    def _drawn(self, task: Task, sizes: Mapping[QueryId, int]) -> dict[QueryId, list[DocId]]:
        """Return documents for each query, none of which is judged for the query. No other query changes the draw."""
        rows = {query_id: self._rows(task.corpus, query_id, size) for query_id, size in sizes.items()}
        ids = ids_at(self._store, task.corpus, {row for of_query in rows.values() for row in of_query})
        drawn = {}
        for query_id, of_query in rows.items():
            judged = task.qrels.get(query_id, {})
            found = dict.fromkeys(ids[row] for row in of_query if ids[row] not in judged)
            drawn[query_id] = list(found)[: sizes[query_id]]
        return drawn

    def _rows(self, corpus: Corpus, query_id: QueryId, size: int) -> list[int]:
        first = corpus.shards[0].start_row
        dice = random.Random(f"{self._seed} {corpus.digest} {query_id}")
        return [first + dice.randrange(corpus.num_rows) for _ in range(TRIES * size)] if corpus.num_rows else []


def _texts(ids: Mapping[QueryId, Sequence[DocId]], texts: Mapping[DocId, str]) -> Passages:
    return {query_id: [texts[doc_id] for doc_id in doc_ids] for query_id, doc_ids in ids.items()}
