"""Converts between Python, Arrow and numpy without pandas.

`pa.array`, `pa.scalar` and `to_numpy` import pandas if it is installed. The import takes a second and 60 MB, which is
more than scoring a run takes. So the functions here make arrays from buffers and read arrays through DLPack.
"""

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from r2med_ray.errors import DataError

IntVector: TypeAlias = npt.NDArray[np.int64]
DoubleVector: TypeAlias = npt.NDArray[np.float64]
BoolVector: TypeAlias = npt.NDArray[np.bool_]


_USUAL = pa.default_memory_pool()
_LEAN = threading.Lock()
_lean_blocks: list[None] = []
"""An entry for each block of `in_lean_memory` that some thread is in."""


@contextlib.contextmanager
def in_lean_memory() -> Iterator[None]:
    """Have Arrow take memory from the system's allocator in this block, in all threads.

    Arrow's own allocator keeps what is given back, which is most of what reading a file piece by piece takes.
    """
    with _LEAN:
        if not _lean_blocks:
            pa.set_memory_pool(pa.system_memory_pool())
        _lean_blocks.append(None)
    try:
        yield
    finally:
        with _LEAN:
            _lean_blocks.pop()
            if not _lean_blocks:
                pa.set_memory_pool(_USUAL)


def text_array(texts: Iterable[str]) -> pa.StringArray:
    """Return texts as an Arrow array.

    Raises:
        DataError: a text has no UTF-8 form; names the text.
    """
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        raise DataError(f"id {error.object!r:.80} holds half of a surrogate pair, which no file can hold") from error
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def int_array(values: IntVector) -> pa.Int64Array:
    """Return integers as an Arrow array."""
    return pa.Int64Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def numbers(values: Any) -> npt.NDArray[Any]:
    """Return an array or column of numbers, none of them null, as numpy; without a copy if it has one chunk."""
    return np.from_dlpack(whole(values))


def whole(values: Any) -> Any:
    """Return a column as one array; without a copy if it has one chunk, which `combine_chunks` would copy."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def int_vector(array: pa.Array) -> IntVector:
    """Return an Arrow array of integers, none of them null, as int64."""
    return numbers(array).astype(np.int64)


def codes(texts: Any) -> tuple[pa.StringArray, IntVector]:
    """Return the distinct texts of an array or column, and for each row the index of its text.

    The distinct texts are in order of appearance.
    """
    encoded = whole(texts.dictionary_encode())
    return encoded.dictionary, int_vector(encoded.indices)


def codes_of_runs(texts: Any) -> tuple[pa.StringArray, IntVector]:
    """Return what `codes` returns, faster where equal texts are mostly together."""
    runs = pc.run_end_encode(whole(texts))
    distinct, code_R = codes(runs.values)
    return distinct, np.repeat(code_R, np.diff(int_vector(runs.run_ends), prepend=0))
