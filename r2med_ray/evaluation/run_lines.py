"""Reads the lines of a run file as tables. The file has TREC's or MS MARCO's layout, and may be a `.gz`.

    query_id Q0 doc_id rank score tag          six fields, as in trec_eval's get_trec_results.c
    query_id doc_id rank                       three fields; the score of a document is -rank

MS MARCO's layout has ranks and no scores. A rank is a whole number from 1 on; anything else in its place is refused,
because a score there would turn the ranking upside down. Fields are separated by spaces and tabs, and only `\\n` ends
a line. `#` is data. The rank of a six-field line is ignored, because scores order a ranking. numpy and Arrow cut a
block in the plain layout into fields; any other block is read line by line. Both ways give the same table. The second
way also says what is wrong with a line.

Shape letters: C bytes of a block, F fields of a block, N lines, W fields of a line.
"""

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from r2med_ray.errors import DataError
from r2med_ray.evaluation.trec_eval_lines import as_trec_eval_reads
from r2med_ray.storage.arrow import int_array, numbers
from r2med_ray.storage.packed import open_packed
from r2med_ray.types import FloatVector

BLOCK_BYTES = 3 << 19
"""Number of bytes that are read at once. Smaller blocks cost time, larger ones memory; see `bench_m1_measures`."""

_FIELDS = {6: ["query_id", "q0", "doc_id", "rank", "score", "tag"], 3: ["query_id", "doc_id", "rank"]}
_ORDERED_BY = {6: "score", 3: "rank"}
_RIGHT = {
    "score": "scores must be finite 32-bit numbers",
    "rank": "of three fields the last is a rank, a whole number from 1 on; scores need six fields",
}

_GREATEST_RANK = 1 << 24
"""Greater whole numbers are not all different as 32-bit floats."""

BY_RANK = b"by rank"
"""Marks, in the metadata of a table's schema, that the file has ranks and no scores."""

_SCHEMA = pa.schema({"query_id": pa.string(), "doc_id": pa.string(), "score": pa.float64(), "line": pa.int64()})


class OnlyTrecEvalReadsError(DataError):
    """A line is malformed, but trec_eval would read it: as a comment, or without the fields after the tag."""


def read_tables(path: Path, *, as_trec_eval: bool = False) -> Iterator[pa.Table]:
    """Yield the lines of a file as tables of `_SCHEMA`, none of them empty.

    With `as_trec_eval`, comments and fields after the tag are passed over.
    """
    width = 0
    line = 1
    with open_packed(path) as stream:
        for block in as_trec_eval_reads(path, _blocks(stream)) if as_trec_eval else _blocks(stream):
            width = width or _width(path, block, line)
            table = _parse_plain(block, line, width)
            if table is None:
                table = _parse_lines(path, block, line, width)
                line += block.count(b"\n")
            else:
                line += table.num_rows
            if table.num_rows:
                yield table.replace_schema_metadata({BY_RANK: b""}) if width == 3 else table
    if not width:
        raise DataError(f"{path}: expected a ranking, got an empty file")


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines, without a byte order mark and with `\\n` at the end."""
    start = stream.read(3).removeprefix(b"\xef\xbb\xbf")
    while block := start + stream.read(BLOCK_BYTES):
        block += stream.readline()
        yield block if block.endswith(b"\n") else block + b"\n"
        start = b""


def _width(path: Path, block: bytes, first: int) -> int:
    """Return how many fields the first line with fields has; 0 if no line has any."""
    for number, raw in enumerate(io.BytesIO(block), start=first):
        width = len(raw.split())
        if width in _FIELDS:
            return width
        if width:
            layouts = " or ".join(f"{count} fields ({' '.join(names)})" for count, names in _FIELDS.items())
            raise _error(raw)(f"{path}:{number}: expected {layouts}, got {raw!r:.200}{_carriage_returns(raw)}")
    return 0


def _parse_plain(block: bytes, first: int, width: int) -> pa.Table | None:
    """Return the rows of a block, or None if it isn't in the plain layout or something is wrong with it.

    The plain layout has one space or tab between fields, `\n` after the last field, and no other control character.
    """
    byte_C = np.frombuffer(block, np.uint8)
    blank_C = byte_C <= ord(" ")
    end_F = np.flatnonzero(blank_C).astype(np.int32)
    if not width or len(end_F) % width or blank_C[0] or (np.diff(end_F) == 1).any():
        return None
    end_NW = end_F.reshape(-1, width)
    kind_F = byte_C.take(end_F)
    is_newline_F = kind_F == ord("\n")
    is_plain = ((kind_F == ord(" ")) | (kind_F == ord("\t")) | is_newline_F).all()
    if not is_plain or not is_newline_F[width - 1 :: width].all() or np.count_nonzero(is_newline_F) > len(end_NW):
        return None
    try:
        if not block.isascii():
            block.decode()
        names = _FIELDS[width]
        columns = [_column(block, end_NW, names.index(name)) for name in ("query_id", "doc_id", _ORDERED_BY[width])]
        number = columns.pop()
        score = number.cast(pa.float64())
    except (UnicodeDecodeError, pa.ArrowInvalid):
        return None
    if width == 3 and not _are_ranks(number, score):
        return None
    table = pa.Table.from_arrays(
        [*columns, pc.negate(score) if width == 3 else score, int_array(np.arange(first, first + len(end_NW)))],
        schema=_SCHEMA,
    )
    return table if np.isfinite(float32_scores(table)).all() else None


def _are_ranks(texts: pa.StringArray, numbers: pa.DoubleArray) -> bool:
    in_range = pc.min(numbers).as_py() >= 1 and pc.max(numbers).as_py() <= _GREATEST_RANK
    return in_range and bool(pc.all(pc.ascii_is_decimal(texts)).as_py())


def _column(block: bytes, end_NW: npt.NDArray[np.int32], field: int) -> pa.StringArray:
    """Return one field of every line, cut out of the block."""
    bounds_N2 = np.empty((len(end_NW), 2), np.int32)
    bounds_N2[:, 1] = end_NW[:, field]
    bounds_N2[:, 0] = (end_NW[:, field - 1] if field else np.append(-1, end_NW[:-1, -1])) + 1
    fields_and_gaps = pa.StringArray.from_buffers(2 * len(end_NW) - 1, pa.py_buffer(bounds_N2), pa.py_buffer(block))
    return fields_and_gaps.take(int_array(np.arange(0, 2 * len(end_NW) - 1, 2)))


def _parse_lines(path: Path, block: bytes, first: int, width: int) -> pa.Table:
    """Return the rows of a block. Lines without fields are passed over.

    Raises:
        DataError: a line is malformed. The message names the file and the line.
    """
    rows: list[tuple[str, str, float, int]] = []
    for number, raw in enumerate(io.BytesIO(block), start=first):
        fields = raw.split()
        if not fields:
            continue
        if len(fields) != width or b"\0" in raw or _carriage_returns(raw):
            problem = f"expected {width} fields ({' '.join(_FIELDS[width])}) and no NUL, got {raw!r:.200}"
            raise _error(raw)(f"{path}:{number}: {problem}{_carriage_returns(raw)}")
        values = dict(zip(_FIELDS[width], fields, strict=True))
        try:
            query_id, doc_id = values["query_id"].decode(), values["doc_id"].decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}:{number}: an id is no UTF-8: {raw!r}") from error
        named = _ORDERED_BY[width]
        score = _number(values[named]) if width == 6 else -_rank(values[named])
        if not math.isfinite(score):
            raise _error(raw)(
                f"{path}:{number}: query {query_id!r}, document {doc_id!r} has {named} "
                f"{values[named].decode(errors='replace')!r}; {_RIGHT[named]}"
            )
        rows.append((query_id, doc_id, score, number))
    return pa.Table.from_pylist([dict(zip(_SCHEMA.names, row, strict=True)) for row in rows], schema=_SCHEMA)


def _rank(text: bytes) -> float:
    """Return the rank in a text: NaN if the text is none."""
    digits = text.lstrip(b"0")
    is_rank = text.isdigit() and 0 < len(digits) <= len(str(_GREATEST_RANK)) and int(digits) <= _GREATEST_RANK
    return float(digits) if is_rank else math.nan


def _error(raw: bytes) -> type[DataError]:
    """Return the kind of error for a bad line: whether it is a comment, or a line with fields after the tag."""
    fields = raw.split()
    is_comment = raw.lstrip().startswith(b"#")
    is_longer = len(fields) > max(_FIELDS) and math.isfinite(_number(fields[4]))
    return OnlyTrecEvalReadsError if not _carriage_returns(raw) and (is_comment or is_longer) else DataError


def _carriage_returns(raw: bytes) -> str:
    """Return what is wrong with a line that is several lines of an old Macintosh."""
    return "; only a line feed ends a line, and here are carriage returns" if b"\r" in raw.strip() else ""


def _number(text: bytes) -> float:
    """Return the score in a text: NaN if the text is no number, infinity if the number is too large for float32."""
    try:
        score = math.nan if b"_" in text else float(text)
    except ValueError:
        return math.nan
    with np.errstate(over="ignore"):
        return score if np.isfinite(np.float32(score)) else float(np.float32(score))


def float32_scores(table: pa.Table) -> FloatVector:
    """Return the scores as trec_eval keeps them: they are read as doubles and kept as 32-bit floats."""
    with np.errstate(over="ignore"):  # a score that overflows becomes infinite and is refused later
        return numbers(table["score"]).astype(np.float32)
