"""Reads TREC run files, and the rank-only files of MS MARCO, in bounded memory.

    query_id Q0 doc_id rank score tag          six fields, as in trec_eval's get_trec_results.c
    query_id doc_id rank                       three fields; the score of a document is -rank

Fields are separated by blanks and tabs, and only `\\n` ends a line. `#` is data. The rank of a six-field line is not
looked at: scores order a ranking. A block in the plain layout is parsed by pyarrow, any other one line by line; both
give the same columns, and only the second has to explain mistakes.

Shape letters: C bytes of a block, N rows.
"""

import io
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from r2med_ray.errors import DataError
from r2med_ray.evaluation.ranked import RankedRows, ranked_rows, repeated_row
from r2med_ray.types import DocId, FloatVector, QueryId, Run

BLOCK_BYTES = 1 << 20

_FIELDS = {6: ["query_id", "q0", "doc_id", "rank", "score", "tag"], 3: ["query_id", "doc_id", "score"]}
_SCHEMA = pa.schema({"query_id": pa.string(), "doc_id": pa.string(), "score": pa.float64()})


class ScatteredQueryError(Exception):
    """The lines of a query are not together, so that the file can't be read in pieces."""


class _Line(NamedTuple):
    number: int
    query_id: QueryId
    doc_id: DocId
    score: float


def read_run(path: Path) -> Run:
    """Read a whole run; its tag is the one on the first line, or the file's name where there is none.

    Raises:
        DataError: a line is malformed, a score is not finite, a query has a document twice, or the file is empty.
    """
    rows = read_rows(path)
    with path.open("rb") as stream:
        fields = stream.readline().decode().split()
    return rows.to_run(fields[5] if len(fields) == 6 else path.stem)


def read_rows(path: Path) -> RankedRows:
    """Read a whole run as columns; errors as in `read_run`."""
    return _rank(path, pa.concat_tables(_tables(path)))


def read_pieces(path: Path) -> Iterator[RankedRows]:
    """Yield the queries of a run, some at a time; errors as in `read_run`.

    Raises:
        ScatteredQueryError: a query of an earlier piece comes again. `read_rows` can read such a file.
    """
    seen: set[QueryId] = set()
    for table in _whole_queries(path):
        rows = _rank(path, table)
        if not seen.isdisjoint(rows.query_ids):
            raise ScatteredQueryError(str(path))
        seen.update(rows.query_ids)
        yield rows


def _whole_queries(path: Path) -> Iterator[pa.Table]:
    """Yield the rows so that a query is cut only where other queries come between its lines."""
    rest: list[pa.Table] = []
    for table in _tables(path):
        rows = pa.concat_tables([*rest, table])
        query_N = np.from_dlpack(rows["query_id"].dictionary_encode().combine_chunks().indices)
        others = np.flatnonzero(query_N != query_N[-1])
        start = int(others[-1]) + 1 if len(others) else 0
        rest = [rows.slice(start)]
        if start:
            yield rows.slice(0, start)
    yield from rest


def _rank(path: Path, table: pa.Table) -> RankedRows:
    queries = table["query_id"].dictionary_encode().combine_chunks()
    documents = table["doc_id"].dictionary_encode().combine_chunks()
    query_ids = queries.dictionary.to_pylist()
    query_N, doc_N = np.from_dlpack(queries.indices), np.from_dlpack(documents.indices)
    repeated = repeated_row(query_N, doc_N)
    if repeated is not None:
        raise _repeated(path, query_ids[query_N[repeated]], documents[repeated].as_py())
    return ranked_rows(query_ids, query_N, documents.dictionary, doc_N, _float32(table))


def _tables(path: Path) -> Iterator[pa.Table]:
    """Yield the lines of a file as tables of `_SCHEMA`, none of them empty."""
    width = 0
    line_number = 1
    with path.open("rb") as stream:
        for block in _blocks(stream):
            width = width or _width(path, block, line_number)
            table = _parse_plain(block, width)
            if table is None:
                table = _as_table(_lines(path, io.BytesIO(block), line_number, width))
            if table.num_rows:
                yield table
            line_number += block.count(b"\n")
    if not width:
        raise DataError(f"{path}: expected a ranking, got an empty file")


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines."""
    rest = stream.read(BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
    while block := rest + stream.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1 or len(block)
        yield block[:end]
        rest = block[end:]


def _width(path: Path, block: bytes, first: int) -> int:
    """Return how many fields the first line has, 0 where every line is blank."""
    for number, raw in enumerate(io.BytesIO(block), start=first):
        if width := len(raw.split()):
            if width not in _FIELDS:
                layouts = " or ".join(f"{count} fields ({' '.join(names)})" for count, names in _FIELDS.items())
                raise DataError(f"{path}:{number}: expected {layouts}, got {width}: {raw!r}")
            return width
    return 0


def _parse_plain(block: bytes, width: int) -> pa.Table | None:
    """Return the rows of a block, or None where it isn't in the plain layout or something is wrong with it."""
    byte_C = np.frombuffer(block, np.uint8)
    blank_C = byte_C <= ord(" ")
    controls = np.count_nonzero(byte_C < ord(" ")) - block.count(b"\n") - block.count(b"\t")
    if not width or controls or blank_C[0] or (blank_C[1:] & blank_C[:-1]).any():
        return None
    try:
        table = csv.read_csv(
            pa.BufferReader(block.replace(b"\t", b" ")),
            read_options=csv.ReadOptions(column_names=_FIELDS[width], use_threads=False),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False, escape_char=False),
            convert_options=csv.ConvertOptions(
                include_columns=_SCHEMA.names,
                column_types=dict(zip(_SCHEMA.names, _SCHEMA.types, strict=True)),
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if not np.isfinite(_float32(table)).all():
        return None
    return table if width == 6 else table.set_column(2, "score", pc.negate(table["score"]))


def _float32(table: pa.Table) -> FloatVector:
    """Return the scores as trec_eval holds them: read as doubles, kept as 32-bit floats."""
    with np.errstate(over="ignore"):  # what overflows is refused as infinite
        return np.from_dlpack(table["score"].combine_chunks()).astype(np.float32)


def _lines(path: Path, source: Iterable[bytes], first: int, width: int) -> Iterator[_Line]:
    """Yield the lines that are not blank.

    Raises:
        DataError: names file and line.
    """
    for number, raw in enumerate(source, start=first):
        fields = raw.split()
        if not fields:
            continue
        where = f"{path}:{number}"
        if len(fields) != width:
            raise DataError(f"{where}: expected {width} fields ({' '.join(_FIELDS[width])}), got {raw!r}")
        if b"\0" in raw:
            raise DataError(f"{where}: a NUL would cut an id off in trec_eval, got {raw!r}")
        values = dict(zip(_FIELDS[width], fields, strict=True))
        try:
            query_id, doc_id = values["query_id"].decode(), values["doc_id"].decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{where}: an id is no UTF-8, got {raw!r}") from error
        score = _score(values["score"])
        if not math.isfinite(score):
            raise DataError(
                f"evaluate: {where}: query {query_id!r}, document {doc_id!r} has score {values['score'].decode()}; "
                f"scores must be finite numbers"
            )
        yield _Line(number, query_id, doc_id, score if width == 6 else -score)


def _score(text: bytes) -> float:
    """Return the number as trec_eval holds it, as float32; NaN for what is no number."""
    try:
        with np.errstate(over="ignore"):
            return math.nan if b"_" in text else float(np.float32(float(text)))
    except ValueError:
        return math.nan


def _as_table(lines: Iterable[_Line]) -> pa.Table:
    rows = list(lines)
    return pa.table([[line[column] for line in rows] for column in (1, 2, 3)], schema=_SCHEMA)


def _repeated(path: Path, query_id: QueryId, doc_id: DocId) -> DataError:
    with path.open("rb") as stream:
        width = next(len(raw.split()) for raw in stream if not raw.isspace())
        stream.seek(0)
        lines = [
            line.number for line in _lines(path, stream, 1, width) if (line.query_id, line.doc_id) == (query_id, doc_id)
        ]
    return DataError(f"{path}:{lines[1]}: query {query_id!r} has document {doc_id!r} twice, first on line {lines[0]}")
