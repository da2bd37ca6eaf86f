"""Checks of a task's files: whether they fit one another, and whether they hold as much as expected."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError
from r2med_ray.storage.ids import Tally
from r2med_ray.types import Qrels, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something in a task's files that is accepted, counted and reported."""

    name: str
    says: str
    ids: Tally

    def sentences(self) -> list[str]:
        return self.ids.sentences(self.says)


def compare(queries: Sequence[Query], qrels: Qrels, corpus_ids: Set[str]) -> list[Finding]:
    """Compare the three files of a task.

    Args:
        queries: every query of the file.
        qrels: every judgement.
        corpus_ids: the ids that the corpus has, among the query ids and the judged and excluded document ids.
    """
    query_ids = {query.query_id: None for query in queries}
    judged_ids = {doc_id: None for grades in qrels.values() for doc_id in grades}
    positive_ids = {query_id for query_id, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    findings = [
        Finding(
            name="unknown_queries",
            says="queries of the qrels do not exist; they score 0",
            ids=Tally(query_id for query_id in qrels if query_id not in query_ids),
        ),
        Finding(
            name="unknown_documents",
            says="documents of the qrels are not in the corpus; they can't be found, but count",
            ids=Tally(doc_id for doc_id in judged_ids if doc_id not in corpus_ids),
        ),
        Finding(
            name="queries_without_qrels",
            says="queries have no qrels and are not evaluated",
            ids=Tally(query_id for query_id in query_ids if query_id not in qrels),
        ),
        Finding(
            name="queries_without_positives",
            says="queries have qrels, but none above 0",
            ids=Tally(query_id for query_id in qrels if query_id not in positive_ids),
        ),
        Finding(
            name="query_ids_in_corpus",
            says="ids stand for a query and for a document; see ignore_identical_ids",
            ids=Tally(query_id for query_id in query_ids if query_id in corpus_ids),
        ),
    ]
    return findings + (_excluded(queries, qrels, corpus_ids) if any(query.excluded for query in queries) else [])


def _excluded(queries: Sequence[Query], qrels: Qrels, corpus_ids: Set[str]) -> list[Finding]:
    pairs = [(query.query_id, doc_id) for query in queries for doc_id in sorted(query.excluded)]
    return [
        Finding(
            name="unknown_excluded",
            says="excluded documents are not in the corpus",
            ids=Tally({doc_id: None for _, doc_id in pairs if doc_id not in corpus_ids}),
        ),
        Finding(
            name="excluded_positives",
            says="relevant documents are excluded for their query; they can't be found, but count",
            ids=Tally(
                f"{query_id} {doc_id}" for query_id, doc_id in pairs if qrels.get(query_id, {}).get(doc_id, 0) > 0
            ),
        ),
    ]


def require_common_query(source: TaskSource, queries: Sequence[Query], qrels: Qrels) -> None:
    """Refuse qrels that name none of the queries.

    Raises:
        DataError: qrels and queries have no id in common; names the first id of each.
    """
    if not any(query.query_id in qrels for query in queries):
        raise DataError(
            f"task {source.name!r}: no query in common: {source.files.queries} starts with "
            f"{queries[0].query_id!r}, {source.files.qrels} with {next(iter(qrels))!r}"
        )


def require_positive(source: TaskSource, queries: Sequence[Query], qrels: Qrels) -> None:
    """Refuse a task for which every measure would be 0 or nothing.

    Raises:
        DataError: no query has a judgement above 0.
    """
    if not any(grade > 0 for query in queries for grade in qrels.get(query.query_id, {}).values()):
        raise DataError(
            f"task {source.name!r}: nothing can be measured: none of its {len(queries)} queries has a judgement "
            f"above 0 in {source.files.qrels}"
        )


def require_expected(source: TaskSource, counts: Mapping[str, int]) -> None:
    """Refuse a task whose counts are not those of the catalogue.

    Raises:
        DataError: a count differs; names every such count, with both numbers.
    """
    wrong = [
        f"{expected} {name} expected, {counts[name]} found"
        for name, expected in source.expected.items()
        if counts[name] != expected
    ]
    if wrong:
        raise DataError(f"task {source.name!r} in {source.folder}: {'; '.join(wrong)}")
