"""The records of a collection's files. Nothing is guessed: no quoting, no missing values, no number types."""

from collections.abc import Iterator
from pathlib import Path

from r2med_ray.corpus.ids import IdReader, Tally, encodable
from r2med_ray.corpus.layouts import Layout
from r2med_ray.corpus.topics import is_trec_topics, read_trec_topics
from r2med_ray.errors import DataError
from r2med_ray.jsonl import Record, read_jsonl, read_lines
from r2med_ray.types import DocId, Document, Qrels, Query, QueryId

HEADS = frozenset({"_id", "id", "qid", "q_id", "query-id", "query_id"})
"""First column of a TSV header; BEIR writes `query-id`, `corpus-id`, `score`."""

JUDGEMENT_FIELDS = (("q_id", "query-id"), ("p_id", "corpus-id"), ("score",))
"""Names in JSON Lines, R2MED's first and MTEB's second."""


def read_documents(path: Path, layout: Layout, ids: IdReader) -> Iterator[Document]:
    """Yield the documents of a JSON Lines file in its order. A title that is absent, null or blank is none.

    Raises:
        DataError: names file and line of a bad id, of a text that is missing or null, of a title that is no text.
    """
    for record in read_jsonl(path):
        where = record.where
        doc_id = ids.read(_field(record, layout.id_fields), where=where)
        title = record.values.get("title")
        if title is None or (isinstance(title, str) and not title.strip()):
            title = ""
        yield Document(doc_id=doc_id, title=_text(title, where, "title"), text=_text_of(record, layout, where))


def read_queries(path: Path, layout: Layout, ids: IdReader) -> list[Query]:
    """Read queries from JSON Lines, TREC topics (`<top>`) or `id<TAB>text`.

    Raises:
        DataError: names file and line of a bad id, a missing or blank text, an id that was there before; or says
            that there is no query at all.
    """
    queries: dict[QueryId, Query] = {}
    lines: dict[QueryId, int] = {}
    for line, raw_id, text in _query_fields(path, layout):
        where = f"{path}:{line}"
        query_id = ids.read(raw_id, where=where)
        if query_id in queries:
            raise DataError(
                f"{where}: query id {query_id!r} stands in line {lines[query_id]} too; ids must be unique"
            )
        if not text.strip():
            raise DataError(f"{where}: query {query_id!r} has no text")
        queries[query_id] = Query(query_id=query_id, text=text)
        lines[query_id] = line
    if not queries:
        raise DataError(f"{path}: holds no queries")
    return list(queries.values())


def read_qrels(path: Path, ids: IdReader) -> tuple[Qrels, list[str]]:
    """Read judgements and what there is to say about them.

    JSON Lines, three columns (query, document, grade; with or without BEIR's header) or TREC's four (query,
    iteration, document, grade).

    Raises:
        DataError: names file and line of a bad id or grade, and both lines of a document with two grades for one
            query; or says that there is no judgement at all.
    """
    qrels: dict[QueryId, dict[DocId, int]] = {}
    lines: dict[tuple[QueryId, DocId], int] = {}
    repeated = Tally()
    for line, raw_query, raw_doc, raw_grade in _judgement_fields(path):
        where = f"{path}:{line}"
        query_id, doc_id = ids.read(raw_query, where=where), ids.read(raw_doc, where=where)
        grade = _grade(raw_grade, where)
        judged = qrels.setdefault(query_id, {})
        if judged.setdefault(doc_id, grade) != grade:
            raise DataError(
                f"{where}: query {query_id!r}, document {doc_id!r} has grade {grade}, "
                f"but {judged[doc_id]} in line {lines[query_id, doc_id]}"
            )
        if (query_id, doc_id) in lines:
            repeated.add(f"{query_id} {doc_id}")
        else:
            lines[query_id, doc_id] = line
    if not qrels:
        raise DataError(f"{path}: holds no judgements")
    return qrels, repeated.sentences(f"lines of {path.name} repeat an earlier judgement")


def _query_fields(path: Path, layout: Layout) -> Iterator[tuple[int, object, str]]:
    """Yield (line, id as it stands, text)."""
    if _is_jsonl(path):
        for record in read_jsonl(path):
            yield record.line, _field(record, layout.id_fields), _text_of(record, layout, record.where)
    elif is_trec_topics(path):
        yield from read_trec_topics(path)
    else:
        for line, columns in _columns(path, maxsplit=1):
            if len(columns) != 2:
                raise DataError(f"{path}:{line}: expected id<TAB>text, got {columns[0][:80]!r}")
            yield line, columns[0], columns[1]


def _judgement_fields(path: Path) -> Iterator[tuple[int, object, object, object]]:
    """Yield (line, query id, doc id, grade), as they stand."""
    if _is_jsonl(path):
        for record in read_jsonl(path):
            query_id, doc_id, grade = (_field(record, names) for names in JUDGEMENT_FIELDS)
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
        if position > 0 or columns[0].lower() not in HEADS:
            yield line, columns


def _is_jsonl(path: Path) -> bool:
    """R2MED's `qrels.txt` may hold JSON Lines, so the content decides where the name does not."""
    _, first = next(read_lines(path), (0, ""))
    return path.name.removesuffix(".gz").endswith(".jsonl") or first.lstrip().startswith("{")


def _field(record: Record, names: tuple[str, ...]) -> object:
    for name in names:
        if name in record.values:
            return record.values[name]
    raise DataError(f"{record.where}: no field {' or '.join(names)}; it has {', '.join(record.values) or 'none'}")


def _text_of(record: Record, layout: Layout, where: str) -> str:
    return _text(_field(record, layout.text_fields), where, "text")


def _text(value: object, where: str, field: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where}: {field} is {value!r:.80}; expected a text")
    return encodable(value, where=where)


def _grade(value: object, where: str) -> int:
    """Return a grade: a whole number, be it written as 1, 1.0 or "1"."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if number.is_integer():
            return int(number)
    raise DataError(f"{where}: grade {value!r} is no whole number")
