"""Brings vectors to unit length, in the same way for all of the package. The module needs NumPy only."""

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
