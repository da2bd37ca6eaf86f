"""Arithmetic of vectors that has to be the same in all of the package. The module needs NumPy only."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

FloatT = TypeVar("FloatT", bound=np.floating)


def unit_length(vectors_ND: npt.NDArray[FloatT]) -> npt.NDArray[FloatT]:
    """Return vectors divided by their Euclidean lengths: a new array of the same shape (N, D) and dtype.

    A vector of zeros stays as it is. A vector with a component that is not finite keeps such a component, so a later
    check still finds it.
    """
    lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    unit_ND: npt.NDArray[FloatT] = vectors_ND / np.where(lengths_N1 == 0, lengths_N1.dtype.type(1), lengths_N1)
    return unit_ND


def exact_products(vectors_CD: npt.NDArray[np.float32], query_D: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the inner product of each vector with a query: float32, shape (C,).

    Each is one float64 sum, whose parts are exact, rounded once. So it depends on no other vector of the call.
    """
    products_C: npt.NDArray[np.float64] = np.vecdot(vectors_CD.astype(np.float64), query_D.astype(np.float64))
    return products_C.astype(np.float32)
