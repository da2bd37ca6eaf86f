"""Documents, queries and judgements that a caller gives as Python values. They are checked like those of files."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from r2med_ray.corpora import Corpus
from r2med_ray.errors import DataError
from r2med_ray.storage.qrels import whole_grade
from r2med_ray.types import Document, Qrels, Query, Task

Texts: TypeAlias = Mapping[str, str]
"""Id → text."""

R = TypeVar("R", Document, Query)


def own_task(
    name: str, corpus: Corpus, documents: Iterable[Document], queries: tuple[Query, ...], qrels: Qrels
) -> Task:
    """Return the task of queries over a corpus that was converted from these documents."""
    query_ids = {query.query_id for query in queries}
    excluded = frozenset[str]().union(*(query.excluded for query in queries))
    there = (excluded | query_ids).intersection(each.doc_id for each in documents)
    return Task(
        name=name,
        suite=name,
        revision=corpus.digest,
        corpus=corpus,
        queries=queries,
        qrels=qrels,
        folder="",
        identical_ids=there & query_ids,
        unknown_excluded=excluded - there,
    )


def own_documents(documents: Texts | Iterable[Document], task: str) -> list[Document]:
    """Return documents as records.

    Raises:
        DataError: a document is neither a record nor an id and its text; names its position.
    """
    if isinstance(documents, Mapping):
        documents = [Document(doc_id=doc_id, text=text) for doc_id, text in documents.items()]
    records = [_record(item, Document, f"{task}: document {at}") for at, item in enumerate(documents, start=1)]
    for record in records:
        _require_texts(f"{task}: document {record.doc_id!r}", id=record.doc_id, title=record.title, text=record.text)
    return records


def own_queries(queries: Texts | Iterable[Query], task: str) -> tuple[Query, ...]:
    """Return queries as records.

    Raises:
        DataError: a query is neither a record nor an id and its text, or an id comes twice.
    """
    if isinstance(queries, Mapping):
        queries = [Query(query_id=query_id, text=text) for query_id, text in queries.items()]
    records = [_record(item, Query, f"{task}: query {at}") for at, item in enumerate(queries, start=1)]
    known: dict[str, int] = {}
    for at, record in enumerate(records, start=1):
        _require_texts(f"{task}: query {record.query_id!r}", id=record.query_id, text=record.text)
        if record.query_id in known:
            first = known[record.query_id]
            raise DataError(f"{task}: query id {record.query_id!r} comes twice: queries {first} and {at}")
        known[record.query_id] = at
    return tuple(records)


def own_qrels(qrels: Qrels, task: str) -> Qrels:
    """Return judgements with grades as whole numbers.

    Raises:
        DataError: the judgements are not query id → document id → grade, an id is no text, a grade is no whole
            number, or there are judgements but none above 0.
    """
    checked: dict[str, dict[str, int]] = {}
    for query_id, judged in qrels.items():
        if not isinstance(judged, Mapping):
            raise DataError(f"{task}: query {query_id!r}: expected document id → grade, got {judged!r:.80}")
        _require_texts(f"{task}: qrels of query {query_id!r}", id=query_id)
        for doc_id in judged:
            _require_texts(f"{task}: qrels of query {query_id!r}, document {doc_id!r}", id=doc_id)
        checked[query_id] = {
            doc_id: whole_grade(grade, f"{task}: query {query_id!r}, document {doc_id!r}")
            for doc_id, grade in judged.items()
        }
    if checked and not any(grade > 0 for grades in checked.values() for grade in grades.values()):
        raise DataError(
            f"task {task!r}: nothing can be measured: none of the {len(checked)} queries of its qrels has a "
            "judgement above 0"
        )
    return checked


def _record(item: object, kind: type[R], where: str) -> R:
    if not isinstance(item, kind):
        raise DataError(f"{where}: expected a `{kind.__name__}`, or id → text for all of them, got {item!r:.80}")
    return item


def _require_texts(where: str, **values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, str):
            raise DataError(f"{where}: {name} is {value!r:.80}; expected a text")
