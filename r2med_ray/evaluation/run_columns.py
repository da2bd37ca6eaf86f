"""Reads run files into columns: TREC's, and the rank-only ones of MS MARCO. A `.gz` is unpacked on the way.

    query_id Q0 doc_id rank score tag          six fields, as in trec_eval's get_trec_results.c
    query_id doc_id rank                       three fields; the score of a document is -rank

Fields are separated by blanks and tabs, and only `\\n` ends a line. `#` is data. The rank of a six-field line is not
looked at: scores order a ranking. A block in the plain layout is parsed by pyarrow, any other one line by line; both
give the same columns, and only the second has to explain mistakes.

Shape letters: C bytes of a block, N rows.
"""

import gzip
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from r2med_ray.errors import DataError
from r2med_ray.evaluation.arrow import IntVector, codes, int_array
from r2med_ray.evaluation.ranked import RankedRows, ranked_rows, repeated_row
from r2med_ray.types import FloatVector, QueryId

BLOCK_BYTES = 1 << 19
"""Small on purpose: larger blocks save a tenth of the time and cost tens of MB in Arrow's memory pool."""

_FIELDS = {6: ["query_id", "q0", "doc_id", "rank", "score", "tag"], 3: ["query_id", "doc_id", "score"]}
_TYPES = {"query_id": pa.string(), "doc_id": pa.string(), "score": pa.float64()}
_SCHEMA = pa.schema({**_TYPES, "line": pa.int64()})
_ODD = (b"\r", b"\v", b"\f", b"\0")  # three more blanks to trec_eval, and the end of a string


class ScatteredQueryError(Exception):
    """The lines of a query are not together, so that the file can't be read in pieces."""


def read_rows(path: Path) -> RankedRows:
    """Read a whole run.

    Raises:
        DataError: a line is malformed, a score is not finite, a query has a document twice, or the file is empty.
    """
    table = pa.concat_tables(_tables(path))
    return _rank(path, table, *codes(table["query_id"]))


def read_pieces(path: Path) -> Iterator[RankedRows]:
    """Yield the queries of a run, some at a time, in bounded memory.

    Raises:
        DataError: as `read_rows`.
        ScatteredQueryError: a query of an earlier piece comes again. `read_rows` can read such a file.
    """
    seen: set[QueryId] = set()
    for piece in _whole_queries(path):
        rows = _rank(path, *piece)
        if not seen.isdisjoint(rows.query_ids):
            raise ScatteredQueryError(str(path))
        seen.update(rows.query_ids)
        yield rows


def _whole_queries(path: Path) -> Iterator[tuple[pa.Table, pa.StringArray, IntVector]]:
    """Yield rows and their queries, a query cut only where other queries come between its lines."""
    rest: list[pa.Table] = []
    for table in _tables(path):
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
    repeated = repeated_row(query_N, doc_N)
    if repeated is not None:
        raise DataError(
            f"{path}:{table['line'][repeated]}: query {table['query_id'][repeated].as_py()!r} has document "
            f"{table['doc_id'][repeated].as_py()!r} for the second time"
        )
    return ranked_rows(query_ids.to_pylist(), query_N, doc_ids, doc_N, _float32(table))


def open_run(path: Path) -> BinaryIO:
    """Open a run file for reading bytes, unpacked where its name ends in `.gz`."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _tables(path: Path) -> Iterator[pa.Table]:
    """Yield the lines of a file as tables of `_SCHEMA`, none of them empty."""
    width = 0
    line = 1
    with open_run(path) as stream:
        for block in _blocks(stream):
            width = width or _width(path, block, line)
            table = _parse_plain(block, line, width)
            if table is None:
                table = _parse_lines(path, block, line, width)
                line += block.count(b"\n")
            else:
                line += table.num_rows
            if table.num_rows:
                yield table
    if not width:
        raise DataError(f"{path}: expected a ranking, got an empty file")


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines, without a byte order mark."""
    rest = stream.read(3).removeprefix(b"\xef\xbb\xbf")
    while block := stream.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
        rest = block[end:] if end else rest + block
    if rest:
        yield rest


def _width(path: Path, block: bytes, first: int) -> int:
    """Return how many fields the first line has, 0 where every line is blank."""
    for number, raw in enumerate(io.BytesIO(block), start=first):
        width = len(raw.split())
        if width in _FIELDS:
            return width
        if width:
            layouts = " or ".join(f"{count} fields ({' '.join(names)})" for count, names in _FIELDS.items())
            raise DataError(f"{path}:{number}: expected {layouts}, got {raw!r}")
    return 0


def _parse_plain(block: bytes, first: int, width: int) -> pa.Table | None:
    """Return the rows of a block, or None where it isn't in the plain layout or something is wrong with it."""
    blank_C = np.frombuffer(block, np.uint8) <= ord(" ")
    if not width or blank_C[0] or (blank_C[1:] & blank_C[:-1]).any() or any(odd in block for odd in _ODD):
        return None
    try:
        table = csv.read_csv(
            pa.BufferReader(block.replace(b"\t", b" ")),
            read_options=csv.ReadOptions(column_names=_FIELDS[width], use_threads=False),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False, escape_char=False),
            convert_options=csv.ConvertOptions(
                include_columns=list(_TYPES), column_types=_TYPES, null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    if not np.isfinite(_float32(table)).all():
        return None
    if width == 3:
        table = table.set_column(2, "score", pc.negate(table["score"]))
    return table.append_column("line", int_array(np.arange(first, first + table.num_rows)))


def _parse_lines(path: Path, block: bytes, first: int, width: int) -> pa.Table:
    """Return the rows of a block; blank lines are passed over.

    Raises:
        DataError: names file and line of what is wrong.
    """
    rows: list[tuple[str, str, float, int]] = []
    for number, raw in enumerate(io.BytesIO(block), start=first):
        fields = raw.split()
        if not fields:
            continue
        if len(fields) != width or b"\0" in raw:
            problem = f"expected {width} fields ({' '.join(_FIELDS[width])}) and no NUL, got {raw!r}"
            raise DataError(f"{path}:{number}: {problem}")
        values = dict(zip(_FIELDS[width], fields, strict=True))
        try:
            query_id, doc_id = values["query_id"].decode(), values["doc_id"].decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}:{number}: an id is no UTF-8: {raw!r}") from error
        score = _number(values["score"])
        if not math.isfinite(score):
            raise DataError(
                f"{path}:{number}: query {query_id!r}, document {doc_id!r} has score {values['score'].decode()!r}; "
                "scores must be finite 32-bit numbers"
            )
        rows.append((query_id, doc_id, score if width == 6 else -score, number))
    return pa.Table.from_pylist([dict(zip(_SCHEMA.names, row, strict=True)) for row in rows], schema=_SCHEMA)


def _number(text: bytes) -> float:
    """Return a score; NaN where the text is no number, infinity where it is too large for trec_eval's float."""
    try:
        score = math.nan if b"_" in text else float(text)
    except ValueError:
        return math.nan
    return score if abs(score) <= np.finfo(np.float32).max else math.copysign(math.inf, score)


def _float32(table: pa.Table) -> FloatVector:
    """Return the scores as trec_eval holds them: read as doubles, kept as 32-bit floats."""
    with np.errstate(over="ignore"):  # what overflows is refused as infinite
        return np.from_dlpack(table["score"].combine_chunks()).astype(np.float32)
