"""Reads and writes the files of TREC evaluations: runs and qrels.

    query_id Q0 doc_id rank score tag                      a run; `run_lines` describes the layouts that are read
    query_id 0 doc_id grade                                qrels, fields separated by spaces and tabs
    query-id<TAB>corpus-id<TAB>score                       qrels of BEIR, with or without that header
    {"q_id": query_id, "p_id": doc_id, "score": grade}     qrels of R2MED, JSON Lines

The files have no quotes, comments or missing values. Only `\\n` ends a line. A file is written whole or not at all.
"""

import logging
import re
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from r2med_ray.errors import DataError
from r2med_ray.evaluation.run_columns import read_rows
from r2med_ray.evaluation.run_lines import open_run
from r2med_ray.ranking import best, require_finite
from r2med_ray.storage.jsonl import Record, read_jsonl, read_lines
from r2med_ray.types import DocId, Qrels, QueryId, Run

_LOG = logging.getLogger(__name__)
_FIELD = re.compile(r"\S+", re.ASCII)
_WORD = re.compile(r"[^\s\0]+", re.ASCII)
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_BEIR_HEADER = ["query-id", "corpus-id", "score"]


def read_run(path: Path) -> Run:
    """Read a run. Its tag is the tag on the first line, or the file's name if the layout has no tag.

    Raises:
        DataError: a line is malformed, a score is not finite, a query has a document twice, or the file is empty.
    """
    rows = read_rows(path)
    with open_run(path) as stream:
        fields = stream.readline().split()
    return rows.to_run(fields[5].decode("utf-8", "replace") if len(fields) == 6 else path.name.split(".")[0])


def write_run(path: Path, run: Run) -> None:
    """Write a run. Queries are sorted by id; documents have the order of `ranking`.

    A query without documents has no line. A score is the shortest text that reads back as the same float32.

    Raises:
        DataError: an id or the tag can't be written as a field, a score is not finite, or a query has a document
            twice.
    """
    _write(path, _run_lines(run))


def read_qrels(path: Path, *, comments: bool = False) -> Qrels:
    """Read judgements in any of the layouts above. The first line shows which layout the file has.

    With `comments`, lines that begin with `#` are passed over, as in trec_eval; else `#` is part of an id.

    One warning counts the lines that repeat a judgement. Another warning counts the ids that are JSON integers.

    Raises:
        DataError: a line is malformed, an id is no text, a grade is no whole number, a document has two grades for
            one query, there is no judgement, or there is no such file.
    """
    qrels: dict[QueryId, dict[DocId, int]] = {}
    num_repeats = 0
    for line, query_id, doc_id, grade in _judgements(path, comments):
        grades = qrels.setdefault(query_id, {})
        if doc_id in grades:
            num_repeats += 1
            if grades[doc_id] != grade:
                raise DataError(
                    f"{path}:{line}: query {query_id!r}, document {doc_id!r} has grade {grade} here and "
                    f"{grades[doc_id]} before"
                )
        grades[doc_id] = grade
    if not qrels:
        raise DataError(f"{path}: expected judgements, got an empty file")
    if num_repeats:
        _LOG.warning("%s: %d lines repeat an earlier judgement", path, num_repeats)
    return qrels


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write judgements in TREC's layout, sorted by query id and document id.

    Raises:
        DataError: an id can't be written as a field.
    """
    lines = (
        f"{_word('query id', query_id)} 0 {_word('document id', doc_id)} {grade}\n"
        for query_id, grades in sorted(qrels.items())
        for doc_id, grade in sorted(grades.items())
    )
    _write(path, lines)


def _run_lines(run: Run) -> Iterator[str]:
    tag = _word("run tag", run.tag)
    for query_id, ranking in sorted(run.rankings.items()):
        _word("query id", query_id)
        ordered = best(ranking, len(ranking))
        require_finite(ordered, stage="write run", query_id=query_id)
        num_repeats = len(ordered) - len({hit.doc_id for hit in ordered})
        if num_repeats:
            raise DataError(f"run {run.tag!r}, query {query_id!r}: {num_repeats} documents are ranked twice")
        for rank, hit in enumerate(ordered, start=1):
            yield f"{query_id} Q0 {_word('document id', hit.doc_id)} {rank} {np.float32(hit.score)} {tag}\n"


def _judgements(path: Path, comments: bool) -> Iterator[tuple[int, QueryId, DocId, int]]:
    """Yield (line, query id, document id, grade)."""
    open_run(path).close()
    _, first = next(_lines(path, comments), (0, ""))
    if first.lstrip().startswith("{"):
        yield from _json_judgements(path)
        return
    is_beir = len(first.split("\t")) == 3
    for index, (line, text) in enumerate(_lines(path, comments)):
        fields = text.split("\t") if is_beir else _FIELD.findall(text)
        if index == 0 and fields == _BEIR_HEADER:
            continue
        if len(fields) != (3 if is_beir else 4) or not all(fields) or "\0" in text:
            raise DataError(
                f"{path}:{line}: expected query id, 0, document id and grade, or {', '.join(_BEIR_HEADER)} between "
                f"tabs, and no NUL; got {text!r}"
            )
        if not _WHOLE_NUMBER.fullmatch(fields[-1]):
            raise DataError(f"{path}:{line}: expected a whole number as grade, got {fields[-1]!r}")
        yield line, fields[0], fields[-2], int(fields[-1])


def _lines(path: Path, comments: bool) -> Iterator[tuple[int, str]]:
    return ((line, text) for line, text in read_lines(path) if not (comments and text.startswith("#")))


def _json_judgements(path: Path) -> Iterator[tuple[int, QueryId, DocId, int]]:
    num_integers = 0
    for record in read_jsonl(path):
        query_id, doc_id, grade = (record.values.get(name) for name in ("q_id", "p_id", "score"))
        num_integers += isinstance(query_id, int) + isinstance(doc_id, int)
        if not isinstance(grade, int | float) or isinstance(grade, bool) or grade % 1 != 0:
            raise DataError(f"{record.where}: expected score to be a whole number, got {grade!r}")
        yield record.line, _json_id(query_id, "q_id", record), _json_id(doc_id, "p_id", record), int(grade)
    if num_integers:
        _LOG.warning("%s: %d ids are JSON integers and were read as text", path, num_integers)


def _json_id(value: object, name: str, record: Record) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise DataError(f"{record.where}: expected {name} to be a text, not blank, without NUL; got {value!r}")
    return value


def _word(kind: str, text: str) -> str:
    """Return the text if it can be one field of a line.

    Raises:
        DataError: the text is empty, or holds white space or NUL.
    """
    if not _WORD.fullmatch(text):
        raise DataError(f"{kind} {text!r} can't stand in a TREC file: expected text without white space and NUL")
    return text


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(lines)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
