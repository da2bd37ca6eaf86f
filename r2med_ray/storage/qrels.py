"""Reads judgements, by one set of rules for the tasks of a benchmark and for `r2med evaluate`.

    query_id 0 doc_id grade                                four fields, as in TREC
    query_id doc_id grade                                  three fields, as in BEIR
    {"q_id": query_id, "p_id": doc_id, "score": grade}     JSON Lines, as in R2MED; MTEB says `query-id`, `corpus-id`
    a Parquet table with the same names                    the grade is 1 if there is no column `score`

The fields of a line are separated by spaces and tabs. No id holds white space, so the number of fields is the layout,
and all lines have the same number. The first line may be a header. A record may list several documents, whose grade
is 1 if the record has no score. Any of these files but Parquet may be a `.gz`.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

from r2med_ray.errors import DataError
from r2med_ray.storage.ids import IdReader, Tally
from r2med_ray.storage.jsonl import Record, holds_json, read_jsonl, read_lines
from r2med_ray.storage.parquet import read_rows
from r2med_ray.types import DocId, Qrels, QueryId

GREATEST_GRADE = 10**6
"""The greatest grade that is accepted. The referee, trec_eval, counts the judgements of every grade up to the
greatest: for 2**31 - 1 it takes 16 GB of memory."""

JUDGEMENT_FIELDS: tuple[tuple[str, ...], ...] = (("q_id", "query-id"), ("p_id", "corpus-id"), ("score",))
"""Names of query, document and grade in a record, each in order of preference: R2MED's first, MTEB's second."""

NOTHING = ["N/A"]
"""BRIGHT's way to write an empty list of documents."""

_Judgement: TypeAlias = tuple[str, int, object, object, object]
"""File and line, line, query id, document id, grade; the last three are not checked."""

_FIELD = re.compile(r"\S+", re.ASCII)
_GRADE = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_GRADE_NAMES = frozenset({"score", "grade", "label", "rel", "relevance", "relevancy", "judgement", "judgment"})
"""What the last field of a header says. No judgement has such a grade, so no judgement is taken for a header."""

_ITERATIONS = frozenset({"0", "Q0"})
_HINT = " No id may hold white space: write e.g. `_` instead, in corpus, queries and qrels alike"
_LAYOUTS = {3: "query id, document id and grade", 4: "query id, 0, document id and grade"}


def read_judgements(
    path: Path,
    ids: IdReader,
    *,
    fields: tuple[tuple[str, ...], ...] = JUDGEMENT_FIELDS,
    records: Iterable[Record] | None = None,
    comments: bool = False,
) -> tuple[Qrels, list[str]]:
    """Return the judgements of a file, and a warning if some lines repeat a judgement.

    Args:
        path: the file; the first of its parts if it is Parquet.
        ids: reads the ids, and counts what it had to convert.
        fields: see `JUDGEMENT_FIELDS`. Without a third element, every record lists documents.
        records: the records, if they are in no file that this module reads.
        comments: whether lines of text that begin with `#` are passed over, as in trec_eval; else `#` is part of an
            id.

    Raises:
        DataError: an id or a grade is bad, or a line has another number of fields than the others (names file and
            line); a document has two grades for one query (names both lines); the file holds no judgement, or can't
            be read.
    """
    qrels: dict[QueryId, dict[DocId, int]] = {}
    lines: dict[QueryId, dict[DocId, int]] = {}
    repeated = Tally()
    for where, line, raw_query, raw_doc, raw_grade in _judgements(path, fields, records, comments):
        query_id, doc_id = ids.read(raw_query, where=where), ids.read(raw_doc, where=where)
        grade = whole_grade(raw_grade, where)
        judged, judged_in = qrels.setdefault(query_id, {}), lines.setdefault(query_id, {})
        if doc_id not in judged:
            judged[doc_id], judged_in[doc_id] = grade, line
        elif judged[doc_id] == grade:
            repeated.add(f"{query_id} {doc_id} in lines {judged_in[doc_id]} and {line}")
        else:
            raise DataError(
                f"{where}: query {query_id!r}, document {doc_id!r} has grade {grade}, "
                f"but {judged[doc_id]} in line {judged_in[doc_id]}"
            )
    if not qrels:
        raise DataError(f"{path}: holds no judgements")
    return qrels, repeated.sentences(f"lines of {path.name} repeat an earlier judgement")


def listed_ids(record: Record, names: tuple[str, ...]) -> list[object]:
    """Return a record's list of document ids, unchecked. BRIGHT writes an empty list as `["N/A"]`.

    Raises:
        DataError: the record has no such field, or no list there.
    """
    value = record.first_of(names)
    if not isinstance(value, list):
        raise DataError(f"{record.where}: {' or '.join(names)} is {value!r:.80}; expected a list of document ids")
    return [] if value == NOTHING else value


def whole_grade(value: object, where: str) -> int:
    """Return a grade as a whole number of 32 bits. The value may be written as 1, 1.0 or "1".

    Raises:
        DataError: the value is something else; begins with `where`.
    """
    number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else None
    if isinstance(value, str) and _GRADE.fullmatch(value):
        with contextlib.suppress(InvalidOperation):  # an exponent of very many digits
            number = Decimal(value)  # exact; a float would round
    if number is not None and -GREATEST_GRADE <= number <= GREATEST_GRADE and number == int(number):
        return int(number)
    # Python refuses to write very long integers as decimal digits.
    shown = hex(value) if isinstance(value, int) and value.bit_length() > 64 else repr(value)
    raise DataError(f"{where}: grade {shown:.80} is no whole number from {-GREATEST_GRADE} to {GREATEST_GRADE}")


def _judgements(
    path: Path, fields: tuple[tuple[str, ...], ...], records: Iterable[Record] | None, comments: bool
) -> Iterator[_Judgement]:
    is_table = path.suffix == ".parquet"
    if records is not None:
        return _of_records(records, fields, needs_grade=True)
    if is_table or holds_json(path):
        return _of_records(read_rows(path) if is_table else read_jsonl(path), fields, needs_grade=not is_table)
    return _of_lines(path, comments)


def _of_records(
    records: Iterable[Record], fields: tuple[tuple[str, ...], ...], *, needs_grade: bool
) -> Iterator[_Judgement]:
    query_names, doc_names, *grade_names = fields
    for record in records:
        query_id, documents = record.first_of(query_names), record.first_of(doc_names)
        if not grade_names or isinstance(documents, list):
            documents, grade = listed_ids(record, doc_names), record.values.get("score", 1)
        else:
            grade = record.first_of(grade_names[0]) if needs_grade else record.values.get("score", 1)
            documents = [documents]
        for doc_id in documents:
            yield record.where, record.line, query_id, doc_id, grade


def _of_lines(path: Path, comments: bool) -> Iterator[_Judgement]:
    first, width, name = 0, 0, str(path)
    lines = ((line, text) for line, text in read_lines(path) if not (comments and text.startswith("#")))
    for position, (line, text) in enumerate(lines):
        fields = _FIELD.findall(text)  # `str.split` would split at U+00A0 and U+3000 too
        if position == 0 and len(fields) > 2 and fields[-1].lower() in _GRADE_NAMES:
            continue
        if not width and len(fields) in _LAYOUTS:
            first, width = line, len(fields)
        where = f"{name}:{line}"
        if len(fields) != width:
            expected = f"{_LAYOUTS[width]}, as in line {first}" if width else " or ".join(_LAYOUTS.values())
            raise DataError(f"{where}: expected {expected}; got {len(fields)} fields: {text!r:.80}.{_HINT}")
        if "\t" in text and _is_torn(text, fields):
            raise DataError(
                f"{where}: tabs and blanks don't separate the same fields, expected {_LAYOUTS[width]}: "
                f"{text!r:.80}.{_HINT}"
            )
        yield where, line, fields[0], fields[-2], fields[-1]


def _is_torn(text: str, fields: list[str]) -> bool:
    """Return whether the tabs of a line contradict its fields.

    A line of three fields has nothing between two of its tabs; or the second of four fields may be half of an id.
    """
    parts = [_FIELD.findall(part) for part in text.rstrip().split("\t")]
    if len(fields) == 3:
        return not all(parts)
    return any(len(part) > 1 for part in parts) and fields[1] not in _ITERATIONS
