"""Reads a run file into the columns of `ranked`, as a whole or in pieces."""

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from r2med_ray.errors import DataError
from r2med_ray.evaluation.ranked import RankedRows, ranked_rows, repeated_rows
from r2med_ray.evaluation.run_lines import BY_RANK, float32_scores, read_tables
from r2med_ray.storage.arrow import IntVector, codes, codes_of_runs
from r2med_ray.storage.ids import Tally
from r2med_ray.types import QueryId

_LOG = logging.getLogger(__name__)


class ScatteredQueryError(Exception):
    """The lines of a query are not together, so the file can't be read in pieces."""


def read_rows(path: Path, *, as_trec_eval: bool = False) -> RankedRows:
    """Read a whole run. See `run_lines.read_tables` for `as_trec_eval`. Ranks that may be scores are logged.

    Raises:
        DataError: a line is malformed, a score is not finite, a query has a document twice, or the file is empty.
    """
    table = pa.concat_tables(read_tables(path, as_trec_eval=as_trec_eval))
    rows, odd = _rank(path, table, *codes_of_runs(table["query_id"]))
    _warn(path, odd)
    return rows


def read_pieces(path: Path, *, as_trec_eval: bool = False) -> Iterator[RankedRows]:
    """Yield the queries of a run, some at a time, in bounded memory. See `run_lines.read_tables` for `as_trec_eval`.

    Raises:
        DataError: see `read_rows`.
        ScatteredQueryError: a query of an earlier piece comes again. `read_rows` can read such a file.
    """
    seen: set[QueryId] = set()
    odd: list[QueryId] = []
    for piece in _whole_queries(_ahead(read_tables(path, as_trec_eval=as_trec_eval))):
        rows, odd_here = _rank(path, *piece)
        if not seen.isdisjoint(rows.query_ids):
            raise ScatteredQueryError(str(path))
        seen.update(rows.query_ids)
        odd += odd_here
        yield rows
    _warn(path, odd)


def _ahead(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables. A second thread reads the next one while this thread works with the last one."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, tables, None)
        while (table := coming.result()) is not None:
            coming = pool.submit(next, tables, None)
            yield table


def _whole_queries(tables: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, pa.StringArray, IntVector]]:
    """Yield rows and their queries. The rows of a query come together if its lines in the file are together."""
    rest: list[pa.Table] = []
    for table in tables:
        rows = pa.concat_tables([*rest, table])
        query_ids, query_N = codes_of_runs(rows["query_id"])
        others = np.flatnonzero(query_N != query_N[-1])
        start = int(others[-1]) + 1 if len(others) else 0
        rest = [rows.slice(start)]
        if start:
            yield rows.slice(0, start), query_ids.slice(0, query_N[:start].max() + 1), query_N[:start]
    for rows in rest:
        yield rows, *codes_of_runs(rows["query_id"])


def _rank(
    path: Path, table: pa.Table, query_ids: pa.StringArray, query_N: IntVector
) -> tuple[RankedRows, list[QueryId]]:
    """Return rows in ranking order, and the queries whose ranks may be scores."""
    doc_ids, doc_N = codes(table["doc_id"])
    if repeated := repeated_rows(query_N, doc_N):
        first, second = repeated
        raise DataError(
            f"{path}:{table['line'][second]}: query {table['query_id'][second].as_py()!r} has document "
            f"{table['doc_id'][second].as_py()!r} for the second time, after line {table['line'][first]}"
        )
    rows = ranked_rows(query_ids.to_pylist(), query_N, doc_ids, doc_N, float32_scores(table))
    return rows, _with_odd_ranks(rows) if BY_RANK in (table.schema.metadata or {}) else []


def _with_odd_ranks(rows: RankedRows) -> list[QueryId]:
    """Return the queries that have a rank twice, or no rank 1. The score of a row is minus its rank."""
    starts_late_N = (rows.rank == 1) & (rows.score != -1)
    repeats_N = np.append(False, (rows.query[1:] == rows.query[:-1]) & (rows.score[1:] == rows.score[:-1]))
    return [rows.query_ids[query] for query in np.unique(rows.query[starts_late_N | repeats_N])]


def _warn(path: Path, odd: list[QueryId]) -> None:
    says = (
        "queries have a rank twice or no rank 1: of three fields the last is read as a rank, and 1 is the best; if "
        "they are scores, write six fields"
    )
    for sentence in Tally(odd).sentences(says):
        _LOG.warning("%s: %s", path, sentence)
