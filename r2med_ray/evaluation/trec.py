"""Reads and writes the files of TREC evaluations: runs and qrels.

    query_id Q0 doc_id rank score tag     a run; `run_lines` describes the layouts that are read
    query_id 0 doc_id grade               qrels; `storage.qrels` describes the layouts that are read

The files have no quotes, comments or missing values. Only `\\n` ends a line. A file is written whole or not at all.
"""

import logging
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from r2med_ray.errors import DataError
from r2med_ray.evaluation.run_columns import ScatteredQueryError, read_pieces, read_rows
from r2med_ray.ranking import best, require_finite
from r2med_ray.ranking_arrays import RankedQueries
from r2med_ray.storage.ids import WORD, IdReader, encodable
from r2med_ray.storage.packed import open_packed
from r2med_ray.storage.qrels import read_judgements, whole_grade
from r2med_ray.types import Qrels, Run

_LOG = logging.getLogger(__name__)


def read_run(path: Path) -> Run:
    """Read a run. Its tag is the tag on the first line, or the file's name if the layout has no tag.

    Raises:
        DataError: a line is malformed, a score is not finite, a query has a document twice, or the file is empty.
    """
    try:
        rankings = RankedQueries.joined([rows.to_rankings() for rows in read_pieces(path)])
    except ScatteredQueryError:
        rankings = read_rows(path).to_rankings()
    with open_packed(path) as stream:
        fields = stream.readline().split()
    tag = fields[5].decode("utf-8", "replace") if len(fields) == 6 else path.name.split(".")[0]
    return Run(tag=tag, rankings=rankings)


def write_run(path: Path, run: Run) -> None:
    """Write a run. Queries are sorted by id; documents have the order of `ranking`.

    A query without documents has no line. A score is the shortest text that reads back as the same float32.

    Raises:
        DataError: an id or the tag can't be written as a field, a score is not finite, or a query has a document
            twice.
    """
    _write(path, _run_lines(run))


def read_qrels(path: Path, *, comments: bool = False) -> Qrels:
    """Read judgements, by the rules of `storage.qrels.read_judgements`. Warnings about them are logged.

    With `comments`, lines that begin with `#` are passed over, as in trec_eval; else `#` is part of an id.
    """
    ids = IdReader(path)
    qrels, repeated = read_judgements(path, ids, comments=comments)
    for warning in (*ids.warnings(), *repeated):
        _LOG.warning("%s: %s", path, warning)
    return qrels


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write judgements in TREC's layout, sorted by query id and document id.

    Raises:
        DataError: an id can't be written as a field, or a grade is no whole number.
    """
    lines = (
        f"{_word('query id', query_id)} 0 {_word('document id', doc_id)} "
        f"{whole_grade(grade, f'query {query_id!r}, document {doc_id!r}')}\n"
        for query_id, grades in sorted(qrels.items())
        for doc_id, grade in sorted(grades.items())
    )
    _write(path, lines)


def _run_lines(run: Run) -> Iterator[str]:
    tag = _word("run tag", run.tag)
    for query_id in sorted(run.rankings):
        _word("query id", query_id)
        ranking = run.rankings[query_id]
        ordered = best(ranking, len(ranking))
        require_finite(ordered, stage="write run", query_id=query_id)
        num_repeats = len(ordered) - len({hit.doc_id for hit in ordered})
        if num_repeats:
            raise DataError(f"run {run.tag!r}, query {query_id!r}: {num_repeats} documents are ranked twice")
        for rank, hit in enumerate(ordered, start=1):
            yield f"{query_id} Q0 {_word('document id', hit.doc_id)} {rank} {np.float32(hit.score)} {tag}\n"


def _word(kind: str, text: str) -> str:
    """Return the text if it can be one field of a line.

    Raises:
        DataError: the text is empty, has no UTF-8 form, or holds white space or NUL.
    """
    if not WORD.fullmatch(text):
        raise DataError(f"{kind} {text!r} can't stand in a TREC file: expected text without white space and NUL")
    return encodable(text, where=kind)


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(lines)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
