"""Pieces of a shard: neighbouring rows with about the same amount of text, which workers encode one by one.

The text of the shard alone decides where a piece ends, so what is made of a piece never depends on a cluster.
"""

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from r2med_ray.corpora import CorpusShard

PIECE_BYTES = 800_000
"""Bytes of titles and texts of a piece, about 200,000 tokens. A longer text is a piece of its own.

A worker holds the tokens of one piece, a killed job loses the pieces that its workers were at, and no piece is so
long that other workers wait for its end: R2MED has some 630 of them."""

PIECE_ROWS = 2_000
"""Most rows of a piece, for short texts and for corpora that were converted before their bytes were noted."""

ROW_BYTES = 40
"""What a row counts beside its text, so that many empty texts are no piece without work."""


def num_pieces(shard: CorpusShard) -> int:
    """Return how many pieces a shard is cut into."""
    wanted = max(math.ceil(shard.text_bytes / PIECE_BYTES), math.ceil(shard.num_rows / PIECE_ROWS))
    return max(1, min(wanted, shard.num_rows))


def text_bytes(table: pa.Table) -> int:
    """Return the bytes of the titles and texts of a shard's table."""
    return int(sum(pc.sum(pc.binary_length(table[name])).as_py() or 0 for name in ("title", "text")))


def piece_starts(table: pa.Table, pieces: int) -> npt.NDArray[np.int64]:
    """Return the positions at which the pieces of a whole shard begin, without the 0 of the first one.

    Each piece gets the same share of the text, as far as whole rows allow it, and at least one row.
    """
    sizes = sum(pc.binary_length(table[name]).to_numpy().astype(np.int64) for name in ("title", "text")) + ROW_BYTES
    reached = np.cumsum(sizes)
    shares = reached[-1] * np.arange(1, pieces) / pieces
    starts = np.searchsorted(reached, shares) + 1
    order = np.arange(pieces - 1)
    starts = np.maximum.accumulate(starts - order) + order  # one row at least
    bounded: npt.NDArray[np.int64] = np.minimum(starts, len(sizes) - (pieces - 1) + order)
    return bounded


def piece_of(table: pa.Table, piece: int, pieces: int) -> pa.Table:
    """Return the rows of one piece of a whole shard; `piece` counts from 0."""
    bounds = [0, *piece_starts(table, pieces).tolist(), table.num_rows]
    return table.slice(bounds[piece], bounds[piece + 1] - bounds[piece])
