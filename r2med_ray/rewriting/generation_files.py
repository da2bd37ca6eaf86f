"""Reads files of generated texts: one JSON object per query with `id`, `text`, `hy_doc` and sometimes more."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from r2med_ray.errors import DataError
from r2med_ray.storage.jsonl import Record, read_jsonl
from r2med_ray.types import Query, QueryId

logger = logging.getLogger(__name__)


def read_generations(path: Path, queries: Sequence[Query]) -> dict[QueryId, Record]:
    """Return the row of every query.

    Raises:
        DataError: an id is missing, comes twice or is unknown, or a row is malformed; names file and line.
    """
    rows: dict[QueryId, Record] = {}
    for row in read_jsonl(path):
        query_id = _id(row)
        if query_id in rows:
            raise DataError(f"{row.where}: query {query_id!r} is in line {rows[query_id].line} too")
        rows[query_id] = row
    if numbers := sum(isinstance(row.values["id"], int) for row in rows.values()):
        logger.warning("%s: %d ids are JSON numbers and were read as text", path, numbers)
    _require_same_ids(path, queries, rows)
    return rows


def text_of(row: Record) -> str | None:
    """Return the generated text of a row; None if the file says that there is none.

    Raises:
        DataError: the value is no text, or the text is no Unicode.
    """
    if not isinstance(row.values.get("hy_doc", 0), str | None):
        raise DataError(f"{row.where}: expected the generated text under `hy_doc`, got {row.values.get('hy_doc')!r}")
    text: str | None = row.values["hy_doc"]
    try:
        (text or "").encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{row.where}: character {error.start} of `hy_doc` is half of a surrogate pair, no tokenizer reads it"
        ) from error
    return text


def end_of(row: Record) -> str | None:
    """Return the reason why the text of a row ended; None if the file doesn't say it.

    Raises:
        DataError: the value is no text.
    """
    reason = row.values.get("finish_reason")
    if not isinstance(reason, str | None):
        raise DataError(f'{row.where}: expected a word such as "stop" under `finish_reason`, got {reason!r}')
    return reason


def _require_same_ids(path: Path, queries: Sequence[Query], rows: Mapping[QueryId, Record]) -> None:
    known = {query.query_id for query in queries}
    if missing := [query_id for query_id in known if query_id not in rows]:
        raise DataError(f"{path}: {len(missing)} queries have no text, e.g. {min(missing)!r}")
    for query_id, row in rows.items():
        if query_id not in known:
            raise DataError(f"{row.where}: query {query_id!r} is not in the task; were these made for another one?")


def _id(row: Record) -> QueryId:
    """Return the id as text. A JSON integer becomes its decimal text."""
    value = row.values.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise DataError(f"{row.where}: expected text under `id`, got {value!r}")
    return value
