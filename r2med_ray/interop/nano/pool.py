"""Cuts a collection down to a Nano set: some queries, their positives, and documents up to a number.

The rules are HAKARI-Bench's (docs/create_nano_datasets.md, hakari_bench/nano_dataset_builder.py at 217c8723):

- Queries: the first 200 that have a positive, in the order of the file. A repeated text counts once.
- Documents, up to 10,000, in this order: all positives, as in the qrels; documents that are judged and not relevant,
  one per query in turn, the queries sorted by id; then the corpus from its start.
- Texts are stripped, and a title and a blank line come before the text. Empty documents are left out. Where documents
  share an id or a text, the first one stays.
- If a positive is left out, its judgement goes. A query whose positives are all left out goes too.

The corpus is streamed. Memory holds the texts of the judged documents, and as many others as the set may have.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.readers import read_documents, read_qrels, read_queries
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError
from r2med_ray.storage.ids import IdReader
from r2med_ray.types import DocId, Document, Qrels, Query, QueryId

NUM_QUERIES = 200
NUM_DOCUMENTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoPool:
    """Queries, documents without titles, and judgements. Each judgement joins a query and a document of the pool."""

    queries: tuple[Query, ...]
    documents: tuple[Document, ...]
    qrels: Qrels
    lost_positives: int
    """Judgements of the chosen queries whose document is not in the pool."""

    lost_queries: int
    """Chosen queries that had no other positive."""

    lost_exclusions: int
    """Documents that a query excludes. A Nano set cannot say so, and the documents may be ranked."""


def select_pool(
    source: TaskSource, *, num_queries: int = NUM_QUERIES, num_documents: int = NUM_DOCUMENTS
) -> NanoPool:
    """Choose the queries and documents of a Nano set.

    Raises:
        DataError: a record of the collection is wrong, or no query has a positive in the pool.
    """
    layout, files = LAYOUTS[source.layout], source.files
    qrels, _ = read_qrels(files.qrels, layout, IdReader(files.qrels))
    asked = read_queries(files.queries, layout, IdReader(files.queries))
    queries = _choose_queries(asked, qrels, num_queries)
    positives = _judged(qrels, queries, relevant=True)
    wanted = [doc_id for of_query in positives.values() for doc_id in of_query]
    wanted += _in_turn([of_query for _, of_query in sorted(_judged(qrels, queries, relevant=False).items())])
    documents = read_documents(files.corpus, layout, IdReader(files.corpus))
    chosen = _choose_documents(documents, list(dict.fromkeys(wanted)), num_documents)
    kept = {
        query_id: {doc_id: 1 for doc_id in of_query if doc_id in chosen} for query_id, of_query in positives.items()
    }
    if not any(kept.values()):
        raise DataError(f"task {source.name!r}: no positive of its first {len(queries)} queries is in the corpus")
    return NanoPool(
        queries=tuple(query for query in queries if kept[query.query_id]),
        documents=tuple(Document(doc_id=doc_id, text=text) for doc_id, text in chosen.items()),
        qrels={query_id: grades for query_id, grades in kept.items() if grades},
        lost_positives=sum(map(len, positives.values())) - sum(map(len, kept.values())),
        lost_queries=sum(not grades for grades in kept.values()),
        lost_exclusions=sum(len(chosen.keys() & query.excluded) for query in queries if kept[query.query_id]),
    )


def _choose_queries(queries: Iterable[Query], qrels: Qrels, limit: int) -> list[Query]:
    chosen: dict[str, Query] = {}
    for query in queries:
        text = query.text.strip()
        if any(grade > 0 for grade in qrels.get(query.query_id, {}).values()) and text not in chosen:
            chosen[text] = replace(query, text=text)
    return list(itertools.islice(chosen.values(), limit))


def _judged(qrels: Qrels, queries: Sequence[Query], *, relevant: bool) -> dict[QueryId, list[DocId]]:
    """Return the relevant, or the other, documents of the chosen queries, in the order of the qrels."""
    chosen = {query.query_id for query in queries}
    return {
        query_id: [doc_id for doc_id, grade in grades.items() if (grade > 0) == relevant]
        for query_id, grades in qrels.items()
        if query_id in chosen
    }


def _in_turn(lists: Sequence[Sequence[DocId]]) -> Iterator[DocId]:
    """Yield the first of each list, then the second of each, and so on."""
    for row in itertools.zip_longest(*lists):
        yield from (doc_id for doc_id in row if doc_id is not None)


def _choose_documents(documents: Iterable[Document], wanted: Sequence[DocId], limit: int) -> dict[DocId, str]:
    """Return id → text: what is wanted first, then from the head, none twice by id or by text, at most `limit`.

    What is wanted and chosen keeps at most one document of the head out each, so `limit` of these are enough.
    """
    texts: dict[DocId, str] = {}
    head: dict[str, DocId] = {}
    asked = set(wanted)
    for document in documents:
        text, doc_id = _text(document), document.doc_id
        if not text or doc_id in texts:
            continue
        if is_head := len(head) < limit and text not in head:
            head[text] = doc_id
        if is_head or doc_id in asked:
            texts[doc_id] = text
    chosen: dict[DocId, str] = {}
    taken: set[str] = set()
    for doc_id in itertools.chain(wanted, head.values()):
        if len(chosen) == limit:
            break
        if doc_id in texts and doc_id not in chosen and texts[doc_id] not in taken:
            chosen[doc_id] = texts[doc_id]
            taken.add(texts[doc_id])
    return chosen


def _text(document: Document) -> str:
    title, text = document.title.strip(), document.text.strip()
    return f"{title}\n\n{text}" if title and text and title != text else text or title
