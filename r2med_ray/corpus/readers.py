"""Reads documents, queries and qrels from a collection's files.

Nothing is guessed: no quoting, no missing values, no number types.
"""

from collections.abc import Iterator
from pathlib import Path

from r2med_ray.corpus.ids import IdReader, Tally, encodable
from r2med_ray.corpus.ir_collections import is_address
from r2med_ray.corpus.layouts import Layout
from r2med_ray.corpus.records import is_parquet, read_records, read_texts
from r2med_ray.corpus.topics import (
    LAYOUTS_OF_TOPICS,
    is_json_topics,
    is_trec_topics,
    read_json_topics,
    read_trec_topics,
)
from r2med_ray.errors import DataError
from r2med_ray.storage.jsonl import Record, read_lines
from r2med_ray.types import DocId, Document, Qrels, Query, QueryId

HEADS = frozenset({"_id", "id", "qid", "q_id", "query-id", "query_id"})
"""Names that mark the first column of a TSV header. BEIR writes `query-id`, `corpus-id`, `score`."""

TOPIC_HEADS = frozenset({"topic", "topic_id", "topic-id", "topicid", "topic_number", "number", "num", "queryid"})
"""Names that mark the first column of a TSV header if the second column has a name of `TEXT_HEADS`."""

TEXT_HEADS = frozenset(
    {"query", "text", "title", "question", "topic", "description", "summary", "content", "contents"}
)

NOTHING = ["N/A"]
"""BRIGHT's way to write an empty list of documents."""

GREATEST_GRADE = 2**31 - 1
"""The greatest grade that is accepted, so that sums of gains stay exact."""


def read_documents(path: Path, layout: Layout, ids: IdReader) -> Iterator[Document]:
    """Yield the documents of JSON Lines or Parquet in their order.

    A title that is absent, null or only white space becomes an empty title.

    Raises:
        DataError: an id is bad, a text is missing or null, or a title is no text; names file and line.
    """
    for record in read_texts(path, layout, ids.left_out):
        where = record.where
        doc_id = ids.read(_field(record, layout.id_fields), where=where)
        title = record.values.get("title")
        if title is None or (isinstance(title, str) and not title.strip()):
            title = ""
        yield Document(doc_id=doc_id, title=_text(title, where, "title"), text=_text_of(record, layout, where))


def read_queries(path: Path, layout: Layout, ids: IdReader) -> list[Query]:
    """Read queries from JSON Lines, Parquet, `id<TAB>text`, or TREC's topics in any layout of `corpus.topics`.

    Raises:
        DataError: an id is bad or comes twice, or a text is missing or only white space (names file and line); or
            the file holds no query (names the layouts that are read).
    """
    queries: dict[QueryId, Query] = {}
    lines: dict[QueryId, int] = {}
    for line, raw_id, text, excluded in _query_fields(path, layout, ids.left_out):
        where = f"{path}:{line}"
        query_id = ids.read(raw_id, where=where)
        if query_id in queries:
            raise DataError(f"{where}: query id {query_id!r} is in line {lines[query_id]} too; ids must be unique")
        if not text.strip():
            raise DataError(f"{where}: query {query_id!r} has no text")
        queries[query_id] = Query(
            query_id=query_id, text=text, excluded=frozenset(ids.read(doc_id, where=where) for doc_id in excluded)
        )
        lines[query_id] = line
    if not queries:
        raise DataError(
            f"{path}: holds no queries; expected JSON Lines, Parquet, id<TAB>text, or topics as {LAYOUTS_OF_TOPICS}"
        )
    return list(queries.values())


def read_qrels(path: Path, layout: Layout, ids: IdReader) -> tuple[Qrels, list[str]]:
    """Return the judgements of a file, and warnings about them.

    The file is JSON Lines, three columns (query, document, grade; with or without BEIR's header), TREC's four columns
    (query, iteration, document, grade), or Parquet. A record may list several documents. In Parquet, and in a record
    with a list, a missing grade means 1.

    Raises:
        DataError: an id or a grade is bad (names file and line), a document has two grades for one query (names both
            lines), or the file holds no judgement.
    """
    qrels: dict[QueryId, dict[DocId, int]] = {}
    lines: dict[tuple[QueryId, DocId], int] = {}
    repeated = Tally()
    for line, raw_query, raw_doc, raw_grade in _judgement_fields(path, layout):
        where = f"{path}:{line}"
        query_id, doc_id = ids.read(raw_query, where=where), ids.read(raw_doc, where=where)
        grade = whole_grade(raw_grade, where)
        judged = qrels.setdefault(query_id, {})
        if judged.setdefault(doc_id, grade) != grade:
            raise DataError(
                f"{where}: query {query_id!r}, document {doc_id!r} has grade {grade}, "
                f"but {judged[doc_id]} in line {lines[query_id, doc_id]}"
            )
        if (query_id, doc_id) in lines:
            repeated.add(f"{query_id} {doc_id} in lines {lines[query_id, doc_id]} and {line}")
        else:
            lines[query_id, doc_id] = line
    if not qrels:
        raise DataError(f"{path}: holds no judgements")
    return qrels, repeated.sentences(f"lines of {path.name} repeat an earlier judgement")


def _query_fields(path: Path, layout: Layout, left_out: Tally) -> Iterator[tuple[int, object, str, list[object]]]:
    """Yield (line, unchecked id, text, unchecked ids of excluded documents)."""
    is_json = not is_parquet(path) and not is_address(path) and is_json_topics(path)
    if is_json or _has_records(path):
        for record in read_json_topics(path) if is_json else read_texts(path, layout, left_out):
            excluded = _doc_ids(record, (layout.excluded_field,)) if layout.excluded_field else []
            yield record.line, _field(record, layout.id_fields), _text_of(record, layout, record.where), excluded
    elif is_trec_topics(path):
        for line, number, text in read_trec_topics(path):
            yield line, number, text, []
    else:
        for line, columns in _columns(path, maxsplit=1):
            if len(columns) != 2:
                raise DataError(
                    f"{path}:{line}: expected id<TAB>text, got {columns[0][:80]!r}; other layouts are JSON Lines, "
                    f"Parquet, and topics as {LAYOUTS_OF_TOPICS}"
                )
            yield line, columns[0], columns[1], []


def _judgement_fields(path: Path, layout: Layout) -> Iterator[tuple[int, object, object, object]]:
    """Yield (line, query id, doc id, grade), all unchecked."""
    if _has_records(path):
        query_names, doc_names, *grade_names = layout.judgement_fields
        for record in read_records(path):
            query_id, documents = _field(record, query_names), _field(record, doc_names)
            if not grade_names or isinstance(documents, list):
                documents, grade = _doc_ids(record, doc_names), record.values.get("score", 1)
            else:
                grade = record.values.get("score", 1) if is_parquet(path) else _field(record, *grade_names)
                documents = [documents]
            for doc_id in documents:
                yield record.line, query_id, doc_id, grade
    else:
        for line, columns in _columns(path):
            parts = columns if len(columns) > 1 else columns[0].split()
            if len(parts) not in (3, 4):
                raise DataError(
                    f"{path}:{line}: expected query, document, grade or query, iteration, document, grade; "
                    f"got {len(parts)} columns"
                )
            yield line, parts[0], parts[-2], parts[-1]


def _columns(path: Path, maxsplit: int = -1) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, columns between tabs), without a header."""
    for position, (line, text) in enumerate(read_lines(path)):
        columns = text.split("\t", maxsplit)
        if position > 0 or not _is_header(columns):
            yield line, columns


def _is_header(columns: list[str]) -> bool:
    """Say whether the first line of a TSV names its columns."""
    first, second = (column.split("\t")[0].strip().lower() for column in [*columns, ""][:2])
    return first in HEADS or (first in TOPIC_HEADS and second in TEXT_HEADS)


def _has_records(path: Path) -> bool:
    """Say whether a file holds records rather than lines of text.

    R2MED's `qrels.txt` may hold JSON Lines, so the content decides if the name does not.
    """
    if is_parquet(path) or is_address(path):
        return True
    _, first = next(read_lines(path), (0, ""))
    return path.name.removesuffix(".gz").endswith(".jsonl") or first.lstrip().startswith("{")


def _field(record: Record, names: tuple[str, ...]) -> object:
    for name in names:
        if name in record.values:
            return record.values[name]
    raise DataError(f"{record.where}: no field {' or '.join(names)}; it has {', '.join(record.values) or 'none'}")


def _doc_ids(record: Record, names: tuple[str, ...]) -> list[object]:
    """Return a record's list of document ids, unchecked. BRIGHT writes an empty list as `["N/A"]`."""
    value = _field(record, names)
    if not isinstance(value, list):
        raise DataError(f"{record.where}: {' or '.join(names)} is {value!r:.80}; expected a list of document ids")
    return [] if value == NOTHING else value


def _text_of(record: Record, layout: Layout, where: str) -> str:
    return _text(_field(record, layout.text_fields), where, "text")


def _text(value: object, where: str, field: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where}: {field} is {value!r:.80}; expected a text")
    return encodable(value, where=where)


def whole_grade(value: object, where: str) -> int:
    """Return a grade as a whole number of 32 bits. The value may be written as 1, 1.0 or "1"."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = float("nan")
        if number.is_integer() and abs(number) <= GREATEST_GRADE:
            return int(number)
    raise DataError(f"{where}: grade {value!r:.80} is no whole number up to {GREATEST_GRADE}")
