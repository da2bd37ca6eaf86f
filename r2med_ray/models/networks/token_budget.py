"""Decides by token counts which texts go through a model together.

On a CPU, each text goes through the model alone, in one thread (`devices.ALONE`). So on one kind of CPU and with one
version of the libraries, a vector or a score depends on its text or pair alone, to the last bit. It does not depend
on the other texts of a call, on their order, on the shard, or on the number of workers and threads. On a GPU, texts
of a micro-batch share matrix products, and the last bits of a vector may depend on the other texts. There, the same
list of texts gives the same micro-batches.

Shape letters: B texts of a micro-batch, T tokens of its longest text.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from r2med_ray.models.catalog.devices import BatchLimits

MIN_EFFICIENCY = 0.95
"""Least share of real tokens in a micro-batch of more than `few` padded tokens."""


def plan_batches(lengths: Sequence[int], limits: BatchLimits) -> list[list[int]]:
    """Return positions grouped into micro-batches, longest text first.

    The cost of a micro-batch of n texts is n times the length of its longest text. A micro-batch ends before a text
    that would bring its cost above `limits.most`. A micro-batch also ends before a text that would bring its cost
    above `limits.few` and its share of real tokens below `MIN_EFFICIENCY`. A text longer than `limits.most` is a
    micro-batch alone. Texts of one length keep their order, so the plan depends on the lengths alone.
    """
    batches: list[list[int]] = []
    longest = real = 0
    for position in sorted(range(len(lengths)), key=lambda position: -lengths[position]):
        length = lengths[position]
        padded = (len(batches[-1]) + 1) * longest if batches else 0
        wasteful = padded > limits.few and real + length < MIN_EFFICIENCY * padded
        if not batches or padded > limits.most or wasteful:
            batches.append([])
            longest, real = length, 0
        batches[-1].append(position)
        real += length
    return batches


def pad(rows: Sequence[Sequence[int]], value: int) -> npt.NDArray[np.int64]:
    """Return int64 of shape (B, T): the rows, filled up on the right with `value`.

    Padding is on the right, whatever the checkpoint's tokenizer prefers. Causal models don't see padding there, and
    all other models mask it. Positions count from the first token on.
    """
    padded_BT = np.full((len(rows), max(len(row) for row in rows)), value, dtype=np.int64)
    for filled_T, row in zip(padded_BT, rows, strict=True):
        filled_T[: len(row)] = row
    return padded_BT
