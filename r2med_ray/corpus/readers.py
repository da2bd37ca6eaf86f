"""Reads documents, queries and qrels from a collection's files.

Nothing is guessed: no quoting, no missing values, no number types.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from r2med_ray.corpus.ir_collections import is_address, read_entries
from r2med_ray.corpus.layouts import Layout
from r2med_ray.corpus.records import is_parquet, read_texts
from r2med_ray.corpus.topics import (
    LAYOUTS_OF_TOPICS,
    is_json_topics,
    is_trec_topics,
    read_json_topics,
    read_trec_topics,
)
from r2med_ray.errors import DataError
from r2med_ray.storage.ids import IdReader, Tally, text_of
from r2med_ray.storage.jsonl import Record, holds_json, read_lines
from r2med_ray.storage.qrels import listed_ids, read_judgements
from r2med_ray.types import Document, Qrels, Query, QueryId

HEADS = frozenset({"_id", "id", "qid", "q_id", "query-id", "query_id"})
"""Names that mark the first column of a TSV header. BEIR writes `query-id`, `corpus-id`, `score`."""

_ID_WORDS = "topic|query|question|number|num|id|q"
_TEXT_WORDS = "query|question|topic|text|title|description|summary|contents|content"
_ID_HEAD, _TEXT_HEAD = (
    re.compile(rf"#?[\s_-]*((?:{words})[\s_-]*)+", re.IGNORECASE) for words in (_ID_WORDS, _TEXT_WORDS)
)
"""Names that mark a TSV header together: each is made of header words alone, e.g. `topicid` and `query_text`."""


def read_documents(path: Path, layout: Layout, ids: IdReader) -> Iterator[Document]:
    """Yield the documents of JSON Lines or Parquet in their order.

    A title that is absent, null or only white space becomes an empty title.

    Raises:
        DataError: an id is bad, a text is missing or null, or a title is no text; names file and line.
    """
    for record in read_texts(path, layout, ids.left_out):
        where = record.where
        doc_id = ids.read(record.first_of(layout.id_fields), where=where)
        title = record.values.get("title")
        if title is None or (isinstance(title, str) and not title.strip()):
            title = ""
        yield Document(
            doc_id=doc_id, title=text_of(title, where=where, field="title"), text=_text_of(record, layout, where)
        )


def read_queries(path: Path, layout: Layout, ids: IdReader) -> list[Query]:
    """Read queries from JSON Lines, Parquet, `id<TAB>text`, or TREC's topics in any layout of `corpus.topics`.

    Raises:
        DataError: an id is bad or comes twice, or a text is missing or only white space (names file and line); or
            the file holds no query (names the layouts that are read).
    """
    queries: dict[QueryId, Query] = {}
    lines: dict[QueryId, int] = {}
    for line, raw_id, text, record in _query_fields(path, layout, ids.left_out):
        where = f"{path}:{line}"
        query_id = ids.read(raw_id, where=where)
        if query_id in queries:
            raise DataError(f"{where}: query id {query_id!r} is in line {lines[query_id]} too; ids must be unique")
        if not text.strip():
            raise DataError(f"{where}: query {query_id!r} has no text")
        queries[query_id] = Query(query_id=query_id, text=text, **_facts(record, layout, ids, where))
        lines[query_id] = line
    if not queries:
        raise DataError(
            f"{path}: holds no queries; expected JSON Lines, Parquet, id<TAB>text, or topics as {LAYOUTS_OF_TOPICS}"
        )
    return list(queries.values())


def read_qrels(path: Path, layout: Layout, ids: IdReader) -> tuple[Qrels, list[str]]:
    """Return the judgements of a file, and warnings about them; see `storage.qrels.read_judgements`."""
    records = read_entries(path) if is_address(path) else None
    return read_judgements(path, ids, fields=layout.judgement_fields, records=records)


def _facts(record: Record | None, layout: Layout, ids: IdReader, where: str) -> dict[str, Any]:
    """Return what a record says of a query beside its text, as fields of `Query`; nothing without a record."""
    if record is None:
        return {}
    excluded = listed_ids(record, (layout.excluded_field,)) if layout.excluded_field else []
    told = {name: record.values.get(name) for name in ("answer", "body_system")}
    return {
        "excluded": frozenset(ids.read(doc_id, where=where) for doc_id in excluded),
        **{name: value for name, value in told.items() if isinstance(value, str)},
    }


def _query_fields(path: Path, layout: Layout, left_out: Tally) -> Iterator[tuple[int, object, str, Record | None]]:
    """Yield (line, unchecked id, text, and the record if the file has records)."""
    is_json = not is_parquet(path) and not is_address(path) and is_json_topics(path)
    if is_json or _has_records(path):
        for record in read_json_topics(path) if is_json else read_texts(path, layout, left_out):
            yield record.line, record.first_of(layout.id_fields), _text_of(record, layout, record.where), record
    elif is_trec_topics(path):
        for line, number, text in read_trec_topics(path):
            yield line, number, text, None
    else:
        for line, columns in _columns(path, maxsplit=1):
            if len(columns) != 2:
                raise DataError(
                    f"{path}:{line}: expected id<TAB>text, got {columns[0][:80]!r}; other layouts are JSON Lines, "
                    f"Parquet, and topics as {LAYOUTS_OF_TOPICS}"
                )
            yield line, columns[0], columns[1], None


def _columns(path: Path, maxsplit: int = -1) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, columns between tabs), without a header."""
    for position, (line, text) in enumerate(read_lines(path)):
        columns = text.split("\t", maxsplit)
        if position > 0 or not _is_header(columns):
            yield line, columns


def _is_header(columns: list[str]) -> bool:
    """Say whether the first line of a TSV names its columns."""
    first, second = (column.split("\t")[0].strip() for column in [*columns, ""][:2])
    return first.lower() in HEADS or bool(_ID_HEAD.fullmatch(first) and _TEXT_HEAD.fullmatch(second))


def _has_records(path: Path) -> bool:
    """Say whether a file holds records rather than lines of text."""
    return is_parquet(path) or is_address(path) or holds_json(path)


def _text_of(record: Record, layout: Layout, where: str) -> str:
    return text_of(record.first_of(layout.text_fields), where=where, field="text")
