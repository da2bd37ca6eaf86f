"""Codes of vectors: fewer bits for each component. A search by codes finds candidates.

Integers and bits are those of `quantize_embeddings` in sentence-transformers, and all codes are those of MTEB's
`CompressionWrapper`. The score of a document depends on no other one, so no shard, batch or thread changes it.

Shape letters: Q queries, N documents of a shard, D components of a vector.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.errors import DataError
from r2med_ray.settings.retriever import INTEGERS, CompressedDtype
from r2med_ray.types import FloatMatrix, FloatVector
from r2med_ray.vectors import exact_products

OutputDtype: TypeAlias = Literal["float32"] | CompressedDtype

BITS: Mapping[OutputDtype, int] = {
    **{"float32": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8},
    **{"int8": 8, "int4": 4, "binary": 1},
}
"""Bits of a component."""

QUERY_LEVELS = 2.0**30
"""Largest whole number of a query's weight. Its products with codes, summed over 2¹⁵ components, stay within 2⁵³. Up
to there, float64 adds whole numbers exactly, in any order."""

QUERIES_AT_ONCE = 32
ROWS_AT_ONCE = 65_536
DECODED_AT_ONCE = 4096
"""Rows that are turned into float64 for products one by one."""


class Codes(Protocol):
    """The compressed vectors of a shard."""

    def scores(self, queries_QD: FloatMatrix) -> Iterator[FloatVector]:
        """Yield the scores of the N documents for each query: float32, shape (N,); higher is nearer."""
        ...


def codes_of(vectors_ND: FloatMatrix, output_dtype: OutputDtype, ranges_2D: FloatMatrix | None) -> Codes:
    """Return the codes of a shard's vectors.

    Args:
        vectors_ND: float32.
        output_dtype: what a component becomes; not float32.
        ranges_2D: the range of each component over the whole corpus, for `INTEGERS`.

    Raises:
        DataError: a component is beyond the range of the codes.
    """
    if output_dtype in INTEGERS:
        assert ranges_2D is not None
        return IntegerCodes(vectors_ND, ranges_2D, bits=BITS[output_dtype])
    return BinaryCodes(vectors_ND) if output_dtype == "binary" else FloatCodes(vectors_ND, output_dtype)


def ranges_of(shards: Iterable[FloatMatrix]) -> FloatMatrix:
    """Return the smallest and the largest value of each component over all shards: float32, shape (2, D)."""
    of_shards = [(vectors_ND.min(axis=0), vectors_ND.max(axis=0)) for vectors_ND in shards if len(vectors_ND)]
    if not of_shards:
        return np.zeros((2, 0), np.float32)
    lowest, highest = zip(*of_shards, strict=True)
    return np.stack([np.min(lowest, axis=0), np.max(highest, axis=0)])


def clipped_ranges_of(
    shards: Callable[[], Iterable[FloatMatrix]], clipping_margin: tuple[float, float]
) -> FloatMatrix:
    """Return two quantiles of each component over all shards: float32, shape (2, D).

    They are interpolated as `torch.quantile` does it, in float32. Only the values outside of them are held.

    Args:
        shards: yields the vectors of every shard. It is called three times.
        clipping_margin: the two quantiles, e.g. (0.01, 0.99).
    """
    count = sum(len(vectors_ND) for vectors_ND in shards())
    if not count:
        return np.zeros((2, 0), np.float32)
    low, high = (np.float32(share) * np.float32(count - 1) for share in clipping_margin)
    lowest = _smallest(shards(), int(low) + 2)[int(low) :]
    highest = -_smallest((-vectors_ND for vectors_ND in shards()), count - int(high))[::-1]
    return np.stack([_between(lowest, low - np.floor(low)), _between(highest, high - np.floor(high))])


def _smallest(shards: Iterable[FloatMatrix], most: int) -> FloatMatrix:
    """Return the smallest values of each component, at most so many, in ascending order."""
    kept: FloatMatrix | None = None
    for vectors_ND in shards:
        kept = vectors_ND if kept is None else np.concatenate([kept, vectors_ND])
        if len(kept) > most:
            kept = np.partition(kept, most - 1, axis=0)[:most]
    assert kept is not None
    return np.sort(kept, axis=0)


def _between(values: FloatMatrix, part: np.float32) -> FloatVector:
    """Return what lies between the first two values of each component: from the nearer one on, as in `torch.lerp`."""
    first_D, second_D = values[0], values[min(1, len(values) - 1)]
    gap_D = second_D - first_D
    between_D: FloatVector = first_D + part * gap_D if part < 0.5 else second_D - gap_D * (1 - part)
    return between_D


class IntegerCodes:
    """A whole number per component: the number of the part of the component's range that a value lies in.

    A score is the inner product of the query with the values that the codes stand for. The query's weights are whole
    numbers up to `QUERY_LEVELS`.

    Args:
        vectors_ND: float32. Values outside of a range get the code of its end.
        ranges_2D: see `ranges_of` and `clipped_ranges_of`; over the whole corpus, so that shards share the codes.
        bits: 8, or 4, which are kept two in a byte.
    """

    def __init__(self, vectors_ND: FloatMatrix, ranges_2D: FloatMatrix, bits: int = 8) -> None:
        self._half, self._is_packed, self._dim = 2 ** (bits - 1), bits == 4, vectors_ND.shape[1]
        starts_D, ends_D = ranges_2D
        most = 2**bits - 1
        steps_D = (ends_D - starts_D) / most
        self._steps_D = np.where(steps_D == 0, 1, steps_D)
        self._zeros_D = self._half * self._steps_D.astype(np.float64) + starts_D
        inside_ND = np.clip(vectors_ND, starts_D, ends_D)
        levels_ND = np.clip(np.floor((inside_ND - starts_D) / self._steps_D), 0, most).astype(np.uint8)
        self._levels_NB = two_in_a_byte(levels_ND) if self._is_packed else levels_ND

    def codes(self, rows: slice = slice(None)) -> npt.NDArray[np.float64]:
        """Return codes of some rows, whole numbers from -128 to 127, or from -8 to 7: shape (rows, D)."""
        levels_NB = self._levels_NB[rows]
        if self._is_packed:
            levels_NB = out_of_bytes(levels_NB, self._dim)
        codes_ND: npt.NDArray[np.float64] = levels_NB.astype(np.float64)
        codes_ND -= self._half
        return codes_ND

    def scores(self, queries_QD: FloatMatrix) -> Iterator[FloatVector]:
        for start in range(0, len(queries_QD), QUERIES_AT_ONCE):
            yield from self._scores(queries_QD[start : start + QUERIES_AT_ONCE].astype(np.float64))

    def _scores(self, queries_QD: npt.NDArray[np.float64]) -> Iterator[FloatVector]:
        weights_QD = queries_QD * self._steps_D
        largest_Q = np.abs(weights_QD).max(axis=1)
        scales_Q = np.where(largest_Q == 0, 1, largest_Q) / QUERY_LEVELS
        whole_QD = np.rint(weights_QD / scales_Q[:, np.newaxis])
        sums_QN = np.empty((len(queries_QD), len(self._levels_NB)))
        for start in range(0, len(self._levels_NB), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            sums_QN[:, rows] = whole_QD @ self.codes(rows).T
        offsets_Q = np.vecdot(queries_QD, self._zeros_D)
        for sums_N, scale, offset in zip(sums_QN, scales_Q, offsets_Q, strict=True):
            yield (sums_N * scale + offset).astype(np.float32)


def two_in_a_byte(levels_ND: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return numbers from 0 to 15 as half as many bytes, rounded up: shape (N, B)."""
    even_ND = np.pad(levels_ND, ((0, 0), (0, levels_ND.shape[1] % 2)))
    bytes_NB: npt.NDArray[np.uint8] = even_ND[:, ::2] | even_ND[:, 1::2] << np.uint8(4)
    return bytes_NB


def out_of_bytes(bytes_NB: npt.NDArray[np.uint8], dim: int) -> npt.NDArray[np.uint8]:
    """Return the numbers of which `two_in_a_byte` made bytes: shape (N, dim)."""
    return np.stack([bytes_NB & 15, bytes_NB >> 4], axis=2).reshape(len(bytes_NB), -1)[:, :dim]


class BinaryCodes:
    """One bit per component: whether a value is above 0. A score is the inner product of the signs, from -D to D.

    Args:
        vectors_ND: float32.
    """

    def __init__(self, vectors_ND: FloatMatrix) -> None:
        self._dim = vectors_ND.shape[1]
        self.codes_NW = _packed(vectors_ND)

    def scores(self, queries_QD: FloatMatrix) -> Iterator[FloatVector]:
        for query_W in _packed(queries_QD):
            different_N = np.bitwise_count(self.codes_NW ^ query_W).sum(axis=1, dtype=np.int64)
            yield (self._dim - 2 * different_N).astype(np.float32)


def _packed(vectors_ND: FloatMatrix) -> npt.NDArray[np.uint64]:
    """Return the signs of vectors as bits, in words of 64 bits that end in zeros."""
    bits_NB = np.packbits(vectors_ND > 0, axis=1)
    return np.pad(bits_NB, ((0, 0), (0, -bits_NB.shape[1] % 8))).view(np.uint64)


class _Format(NamedTuple):
    """A binary floating-point format with subnormal numbers."""

    mantissa: int
    """Bits after the binary point."""

    least: int
    """Exponent of the smallest normal number."""

    largest: float
    """The largest finite number."""


_FORMATS: Mapping[OutputDtype, _Format] = {
    "float16": _Format(10, -14, 65_504.0),
    "bfloat16": _Format(7, -126, 2.0**127 * (2 - 2**-7)),
    "float8_e4m3fn": _Format(3, -6, 448.0),
    "float8_e5m2": _Format(2, -14, 57_344.0),
}


class FloatCodes:
    """A floating-point number of 16 or 8 bits per component, rounded to the nearest one, and to even in the middle.

    A score is the inner product of the query with these numbers, in float64.

    Args:
        vectors_ND: float32.
        output_dtype: the name of the format.

    Raises:
        DataError: a component is beyond the range of the format.
    """

    def __init__(self, vectors_ND: FloatMatrix, output_dtype: OutputDtype) -> None:
        form, bits = _FORMATS[output_dtype], BITS[output_dtype]
        largest = float(np.abs(vectors_ND).max(initial=0.0))
        if largest > form.largest:
            raise DataError(
                f"`output_dtype: {output_dtype}` holds numbers up to {form.largest:g}, and a vector has a component "
                f"of {largest:g}; take bfloat16 or int8"
            )
        self._codes_ND = _encoded(vectors_ND, form, bits)
        self._values = _decoded(form, bits)

    def values(self, rows: slice = slice(None)) -> FloatMatrix:
        """Return the numbers of some rows: float32, shape (rows, D)."""
        values_RD: FloatMatrix = self._values[self._codes_ND[rows]]
        return values_RD

    def scores(self, queries_QD: FloatMatrix) -> Iterator[FloatVector]:
        for start in range(0, len(queries_QD), QUERIES_AT_ONCE):
            block_QD = queries_QD[start : start + QUERIES_AT_ONCE]
            scores_QN = np.empty((len(block_QD), len(self._codes_ND)), np.float32)
            for first in range(0, len(self._codes_ND), DECODED_AT_ONCE):
                rows = slice(first, first + DECODED_AT_ONCE)
                values_RD = self.values(rows)
                for scores_N, query_D in zip(scores_QN, block_QD, strict=True):
                    scores_N[rows] = exact_products(values_RD, query_D)
            yield from scores_QN


def _encoded(vectors_ND: FloatMatrix, form: _Format, bits: int) -> npt.NDArray[np.unsignedinteger]:
    """Return the bits of each number: its sign, its exponent and its mantissa.

    The mantissa counts steps of the exponent. One step too many is the next exponent, as the bits have it too.
    """
    exponents_ND = np.where(vectors_ND == 0, form.least, np.maximum(np.frexp(vectors_ND)[1] - 1, form.least))
    steps_ND = np.rint(np.ldexp(np.abs(vectors_ND), form.mantissa - exponents_ND)).astype(np.int32)
    magnitudes_ND = (exponents_ND - form.least << form.mantissa) + steps_ND
    signs_ND = np.signbit(vectors_ND).astype(np.int32) << (bits - 1)
    codes_ND: npt.NDArray[np.int32] = magnitudes_ND | signs_ND
    return codes_ND.astype(np.uint8) if bits == 8 else codes_ND.astype(np.uint16)


def _decoded(form: _Format, bits: int) -> FloatVector:
    """Return the number that each code stands for; those of infinity and of no number are never asked for."""
    magnitudes = np.arange(2 ** (bits - 1))
    steps, exponents = magnitudes & (1 << form.mantissa) - 1, magnitudes >> form.mantissa
    is_normal = exponents > 0
    steps += is_normal << form.mantissa
    with np.errstate(over="ignore"):
        values = np.ldexp(np.float32(steps), np.maximum(exponents - 1, 0) + form.least - form.mantissa)
    return np.concatenate([values, -values]).astype(np.float32)
