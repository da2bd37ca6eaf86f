"""Reads and writes the files of TREC evaluations: runs and qrels.

    query_id Q0 doc_id rank score tag                      a run; see `run_columns` for what is read besides
    query_id 0 doc_id grade                                qrels, fields separated by blanks and tabs
    query-id<TAB>corpus-id<TAB>score                       qrels of BEIR, with or without that header
    {"q_id": query_id, "p_id": doc_id, "score": grade}     qrels of R2MED, JSON Lines

No quoting, no comments, no missing values; only `\\n` ends a line. What is written is there whole or not at all.
"""

import logging
import re
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from r2med_ray.errors import DataError
from r2med_ray.evaluation.run_columns import open_run, read_rows
from r2med_ray.jsonl import read_jsonl, read_lines
from r2med_ray.ranking import best, require_finite
from r2med_ray.types import DocId, Qrels, QueryId, Run

_LOG = logging.getLogger(__name__)
_FIELD = re.compile(r"\S+", re.ASCII)
_WORD = re.compile(r"[^\s\0]+", re.ASCII)
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_BEIR_HEADER = ["query-id", "corpus-id", "score"]


class _Judgement(NamedTuple):
    """One judgement as it stands in a file."""

    line: int
    query_id: Any
    doc_id: Any
    grade: Any


def read_run(path: Path) -> Run:
    """Read a run; its tag is the one on the first line, or the file's name where there is none.

    Raises:
        DataError: a line is malformed, a score is not finite, a query has a document twice, or the file is empty.
    """
    rows = read_rows(path)
    with open_run(path) as stream:
        fields = stream.readline().decode("utf-8", "replace").split()
    return rows.to_run(fields[5] if len(fields) == 6 else path.name.split(".")[0])


def write_run(path: Path, run: Run) -> None:
    """Write a run: queries by id, documents in the order of `ranking`; a query without documents leaves no line.

    A score is the shortest text that reads back as the same float32.

    Raises:
        DataError: an id or the tag can't stand in such a file, a score is not finite, or a document is there twice.
    """
    _write(path, _run_lines(run))


def read_qrels(path: Path) -> Qrels:
    """Read judgements, in any of the layouts above; the first line tells which.

    Lines that repeat a judgement, and ids that are JSON integers, are counted in one warning each.

    Raises:
        DataError: a line is malformed, an id is no text, a grade is no whole number, a document has two grades for
            one query, or there is no judgement.
    """
    qrels: dict[QueryId, dict[DocId, int]] = {}
    num_repeats = num_integers = 0
    for judgement in _judgements(path):
        where = f"{path}:{judgement.line}"
        query_id, doc_id = _id(judgement.query_id, where), _id(judgement.doc_id, where)
        grade = _grade(judgement.grade, where)
        grades = qrels.setdefault(query_id, {})
        if grades.get(doc_id, grade) != grade:
            raise DataError(
                f"{where}: query {query_id!r}, document {doc_id!r} has grade {grade} here and {grades[doc_id]} before"
            )
        num_repeats += doc_id in grades
        num_integers += (judgement.query_id != query_id) + (judgement.doc_id != doc_id)
        grades[doc_id] = grade
    if not qrels:
        raise DataError(f"{path}: expected judgements, got an empty file")
    if num_repeats:
        _LOG.warning("%s: %d lines repeat an earlier judgement", path, num_repeats)
    if num_integers:
        _LOG.warning("%s: %d ids are JSON integers and were read as text", path, num_integers)
    return qrels


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write judgements in TREC's layout, by query and document id.

    Raises:
        DataError: an id can't stand in such a file.
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


def _judgements(path: Path) -> Iterator[_Judgement]:
    _, first = next(read_lines(path), (0, ""))
    if first.lstrip().startswith("{"):
        for record in read_jsonl(path):
            yield _Judgement(record.line, *(record.values.get(name) for name in ("q_id", "p_id", "score")))
        return
    is_beir = len(first.split("\t")) == 3
    for index, (line, text) in enumerate(read_lines(path)):
        fields = text.split("\t") if is_beir else _FIELD.findall(text)
        if index == 0 and fields == _BEIR_HEADER:
            continue
        if len(fields) != (3 if is_beir else 4):
            raise DataError(
                f"{path}:{line}: expected query id, 0, document id and grade, or {', '.join(_BEIR_HEADER)} between "
                f"tabs; got {text!r}"
            )
        yield _Judgement(line, fields[0], fields[-2], fields[-1])


def _id(value: Any, where: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise DataError(f"{where}: expected an id, a text that is not blank and holds no NUL, got {value!r}")
    return value


def _grade(value: Any, where: str) -> int:
    is_digits = isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value)
    if is_digits or (isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0):
        return int(value)
    raise DataError(f"{where}: expected a whole number as grade, got {value!r}")


def _word(kind: str, text: str) -> str:
    """Return a text that can be one field of a line.

    Raises:
        DataError: it is empty, or holds white space or NUL.
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
