"""Reads a run file into the columns of `ranked`, as a whole or in pieces."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from r2med_ray.errors import DataError
from r2med_ray.evaluation.arrow import IntVector, codes
from r2med_ray.evaluation.ranked import RankedRows, ranked_rows, repeated_rows
from r2med_ray.evaluation.run_lines import float32_scores, read_tables
from r2med_ray.types import QueryId


class ScatteredQueryError(Exception):
    """The lines of a query are not together, so the file can't be read in pieces."""


def read_rows(path: Path, *, as_trec_eval: bool = False) -> RankedRows:
    """Read a whole run. See `run_lines.read_tables` for `as_trec_eval`.

    Raises:
        DataError: a line is malformed, a score is not finite, a query has a document twice, or the file is empty.
    """
    table = pa.concat_tables(read_tables(path, as_trec_eval=as_trec_eval))
    return _rank(path, table, *codes(table["query_id"]))


def read_pieces(path: Path, *, as_trec_eval: bool = False) -> Iterator[RankedRows]:
    """Yield the queries of a run, some at a time, in bounded memory. See `run_lines.read_tables` for `as_trec_eval`.

    Raises:
        DataError: see `read_rows`.
        ScatteredQueryError: a query of an earlier piece comes again. `read_rows` can read such a file.
    """
    seen: set[QueryId] = set()
    for piece in _whole_queries(read_tables(path, as_trec_eval=as_trec_eval)):
        rows = _rank(path, *piece)
        if not seen.isdisjoint(rows.query_ids):
            raise ScatteredQueryError(str(path))
        seen.update(rows.query_ids)
        yield rows


def _whole_queries(tables: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, pa.StringArray, IntVector]]:
    """Yield rows and their queries. The rows of a query come together if its lines in the file are together."""
    rest: list[pa.Table] = []
    for table in tables:
        rows = pa.concat_tables([*rest, table])
        query_ids, query_N = codes(rows["query_id"])
        others = np.flatnonzero(query_N != query_N[-1])
        start = int(others[-1]) + 1 if len(others) else 0
        rest = [rows.slice(start)]
        if start:
            yield rows.slice(0, start), query_ids.slice(0, query_N[:start].max() + 1), query_N[:start]
    for rows in rest:
        yield rows, *codes(rows["query_id"])


def _rank(path: Path, table: pa.Table, query_ids: pa.StringArray, query_N: IntVector) -> RankedRows:
    doc_ids, doc_N = codes(table["doc_id"])
    if repeated := repeated_rows(query_N, doc_N):
        first, second = repeated
        raise DataError(
            f"{path}:{table['line'][second]}: query {table['query_id'][second].as_py()!r} has document "
            f"{table['doc_id'][second].as_py()!r} for the second time, after line {table['line'][first]}"
        )
    return ranked_rows(query_ids.to_pylist(), query_N, doc_ids, doc_N, float32_scores(table))
