"""Codes of token vectors: fewer bits for each component. A search by codes finds candidates for exact MaxSim.

A component becomes its sign, or a small whole number. Each token keeps the factor that makes the estimate of its
inner product with itself exact (RaBitQ: Gao and Long 2024, arXiv 2405.12497; without its rotation):
⟨q, x⟩ ≈ ⟨q, c⟩ · ⟨x, x⟩ / ⟨c, x⟩ for a token x and its codes c.

The components of a query's tokens become whole numbers, so small that float32 adds up their products with codes
exactly, in any order. So the score of a document depends on no other one, and on no shard, batch or thread.

Shape letters: T tokens of documents, S tokens of queries, D components of a vector, B bytes of a token's codes.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from r2med_ray.indexing.codes import BITS, OutputDtype, out_of_bytes, two_in_a_byte
from r2med_ray.indexing.late_interaction import (
    TOKENS_PER_BLOCK,
    TokenQuery,
    TokenVectors,
    best_of_parts,
    score_parts,
)
from r2med_ray.types import DocId, FloatMatrix, FloatVector, Ranking

LARGEST_CODE: Mapping[OutputDtype, int] = {"int8": 127, "int4": 7, "binary": 1}
"""What a component of a token vector can become → the largest code of a component."""

EXACT_IN_FLOAT32 = 24
"""Up to 2²⁴, float32 adds whole numbers exactly."""


@dataclass(frozen=True, slots=True)
class TokenCodes:
    """The codes of some tokens."""

    output_dtype: OutputDtype
    dim: int
    """D."""

    packed: npt.NDArray[np.uint8]
    """Shape (T, B): a byte, half a byte or a bit for each component."""

    factors: FloatVector
    """Shape (T,)."""

    @classmethod
    def of(cls, vectors_TD: npt.NDArray[np.float16], output_dtype: OutputDtype) -> "TokenCodes":
        """Return the codes of token vectors."""
        num_tokens, dim = vectors_TD.shape
        packed_TB = np.empty((num_tokens, -(-dim * BITS[output_dtype] // 8)), np.uint8)
        factors_T = np.empty(num_tokens, np.float32)
        for first in range(0, num_tokens, TOKENS_PER_BLOCK):
            rows = slice(first, first + TOKENS_PER_BLOCK)
            packed_TB[rows], factors_T[rows] = _coded(vectors_TD[rows].astype(np.float64), output_dtype)
        return cls(output_dtype, dim, packed_TB, factors_T)

    def asked(self, vectors_SD: npt.NDArray[np.float16]) -> tuple[FloatMatrix, npt.NDArray[np.float64]]:
        """Return the tokens of queries as whole numbers, and what each of them is to be multiplied with.

        Returns:
            float32 of shape (S, D), and float64 of shape (S,).
        """
        wide_SD = vectors_SD.astype(np.float64)
        bits = EXACT_IN_FLOAT32 - math.ceil(math.log2(self.dim * LARGEST_CODE[self.output_dtype]))
        largest_S1 = np.abs(wide_SD).max(axis=1, keepdims=True, initial=0)
        scales_S1 = np.where(largest_S1 == 0, 1, largest_S1) / 2**bits
        return np.rint(wide_SD / scales_S1).astype(np.float32), scales_S1[:, 0]

    def block(self, rows: slice) -> FloatMatrix:
        """Return the codes of some tokens: float32, shape (T, D)."""
        return _unpacked(self.packed[rows], self.output_dtype, self.dim)

    def products(self, rows: slice, block_TD: FloatMatrix, asked_SD: FloatMatrix) -> FloatMatrix:
        """Return the inner products of the tokens of queries with some tokens: float32, shape (S, T)."""
        products_ST: FloatMatrix = asked_SD @ block_TD.T
        products_ST *= self.factors[rows]
        return products_ST


def _coded(
    vectors_TD: npt.NDArray[np.float64], output_dtype: OutputDtype
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    """Return the bytes of the codes, shape (T, B), and the factors, shape (T,).

    The products are of numbers that float64 adds up exactly, as in `late_interaction`.
    """
    if output_dtype == "binary":
        codes_TD = np.where(vectors_TD > 0, np.int8(1), np.int8(-1))
    else:
        largest_T1 = np.abs(vectors_TD).max(axis=1, keepdims=True, initial=0)
        steps_T1 = np.where(largest_T1 == 0, 1, largest_T1) / LARGEST_CODE[output_dtype]
        codes_TD = np.rint(vectors_TD / steps_T1).astype(np.int8)
    own_T, others_T = np.vecdot(vectors_TD, vectors_TD), np.vecdot(codes_TD.astype(np.float64), vectors_TD)
    factors_T = np.divide(own_T, others_T, out=np.zeros_like(own_T), where=others_T != 0)
    return _packed(codes_TD, output_dtype), factors_T


def _packed(codes_TD: npt.NDArray[np.int8], output_dtype: OutputDtype) -> npt.NDArray[np.uint8]:
    if output_dtype == "binary":
        return np.packbits(codes_TD > 0, axis=1)
    if output_dtype == "int8":
        return codes_TD.view(np.uint8)
    return two_in_a_byte((codes_TD + np.int8(8)).view(np.uint8))


def _unpacked(packed_TB: npt.NDArray[np.uint8], output_dtype: OutputDtype, dim: int) -> FloatMatrix:
    if output_dtype == "int8":
        return packed_TB.view(np.int8).astype(np.float32)
    if output_dtype == "binary":
        return np.unpackbits(packed_TB, axis=1, count=dim).astype(np.float32) * 2 - 1
    return out_of_bytes(packed_TB, dim).astype(np.float32) - 8


class CompressedTokenIndex:
    """The index of one shard: codes of its tokens are held, and the tokens themselves are read for exact scores.

    Args:
        read: yields the shard's tokens, some documents at a time, each time that it is called.
        output_dtype: what a component becomes.
    """

    def __init__(self, read: Callable[[], Iterable[TokenVectors]], output_dtype: OutputDtype) -> None:
        self._read = read
        self._parts = [(part.doc_ids, TokenCodes.of(part.vectors, output_dtype), part.offsets) for part in read()]

    def search(self, queries: Sequence[TokenQuery], k: int) -> list[Ranking]:
        """Return up to k documents for each query by their codes, in the order of `ranking.best`."""
        return best_of_parts(self._parts, queries, k)

    def score(self, queries: Sequence[TokenQuery], candidates: Sequence[Sequence[DocId]]) -> list[Ranking]:
        """Return the candidates of each query that the shard has, scored by the tokens themselves."""
        wanted = set().union(*candidates)
        has_any = not all(wanted.isdisjoint(doc_ids) for doc_ids, _, _ in self._parts)
        return score_parts(self._read() if has_any else (), queries, candidates)
