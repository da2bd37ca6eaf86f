"""Lengths of documents as Lucene stores them: in one byte.

Lucene writes a length with `SmallFloat.intToByte4` when it indexes, and BM25 reads it with `SmallFloat.byte4ToInt`
(Lucene 7 to 10). Lengths below 24 have a byte each. Of a longer one, what exceeds 24 keeps its four highest bits, so
that no length is stored greater than it is, or smaller by an eighth or more of what exceeds 24.
"""

import numpy as np
import numpy.typing as npt

Lengths = npt.NDArray[np.int64]

_EXACT = 24
"""255 less the 231 codes that `SmallFloat.longToInt4` needs for numbers up to 2^31 - 1."""

_BITS = 4


def as_lucene_stores(lengths: Lengths) -> Lengths:
    """Return the lengths that Lucene reads back: int64, of the same shape."""
    excess = np.maximum(lengths - _EXACT, 0)
    _, num_bits = np.frexp(excess)  # exact, because a length is far below 2^53
    dropped = np.maximum(num_bits - _BITS, 0)
    kept: Lengths = excess >> dropped << dropped
    return np.minimum(lengths, _EXACT) + kept
