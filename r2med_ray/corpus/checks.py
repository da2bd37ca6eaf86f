"""What a task's files say of one another, and whether it is as much as it should be."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from r2med_ray.corpus.ids import Tally
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError
from r2med_ray.types import Qrels, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is accepted, counted and said."""

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
        corpus_ids: those query ids, judged and excluded document ids that the corpus has.
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
        DataError: names the first id of either side.
    """
    if not any(query.query_id in qrels for query in queries):
        raise DataError(
            f"task {source.name!r}: no query in common: {source.files.queries} starts with "
            f"{queries[0].query_id!r}, {source.files.qrels} with {next(iter(qrels))!r}"
        )


def require_expected(source: TaskSource, counts: Mapping[str, int]) -> None:
    """Refuse a task that is not the one of the catalogue.

    Raises:
        DataError: names every count that differs, with both numbers.
    """
    wrong = [
        f"{expected} {name} expected, {counts[name]} found"
        for name, expected in source.expected.items()
        if counts[name] != expected
    ]
    if wrong:
        raise DataError(f"task {source.name!r} in {source.folder}: {'; '.join(wrong)}")
