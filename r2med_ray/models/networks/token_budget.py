"""Decides by token counts which texts go through a model together, and splits micro-batches that don't fit.

On a CPU, each text goes through the model alone (`devices.ALONE`). So on one kind of CPU, with one version of the
libraries and one number of threads, a vector or a score depends on its text or pair alone, to the last bit. It does
not depend on the other texts of a call, on their order, on the shard or on the number of workers. On a GPU, texts of
a micro-batch share matrix products, and the last bits of a vector may depend on the other texts. There, the same list
of texts gives the same micro-batches.

Shape letters: B texts of a micro-batch, T tokens of its longest text, N texts of all, D embedding size.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from r2med_ray.activity import advanced
from r2med_ray.errors import DataError
from r2med_ray.models.catalog.devices import BatchLimits
from r2med_ray.types import FloatMatrix

if TYPE_CHECKING:
    from torch import Tensor

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


def embed_batches(
    lengths: Sequence[int],
    limits: BatchLimits,
    vectors_of: Callable[[list[int]], "Tensor"],
    *,
    dim: int,
    unit_length: bool,
) -> FloatMatrix:
    """Return the vectors of all texts, float32 of shape (N, D). Row i is the vector of the text at position i.

    The vectors are collected on the device that made them, and copied from the device once.

    Args:
        lengths: tokens of each text.
        limits: the limits on a micro-batch.
        vectors_of: takes the positions of a micro-batch, and returns the vectors of its texts, shape (B, D).
        dim: D.
        unit_length: whether vectors are divided by their length.
    """
    import torch

    if not lengths:
        return np.empty((0, dim), dtype=np.float32)
    parts: list[tuple[list[int], Tensor]] = []

    def forward(batch: list[int]) -> None:
        vectors_BD = vectors_of(batch).float()
        parts.append((batch, torch.nn.functional.normalize(vectors_BD) if unit_length else vectors_BD))

    with torch.inference_mode():
        run_batches(plan_batches(lengths, limits), forward, lengths)
        vectors_ND = torch.empty((len(lengths), dim), dtype=torch.float32)
        vectors_ND[[position for batch, _ in parts for position in batch]] = torch.cat(
            [vectors_BD for _, vectors_BD in parts]
        ).cpu()
    encoded: FloatMatrix = vectors_ND.numpy()
    return encoded


def run_batches(
    batches: Sequence[list[int]], forward: Callable[[list[int]], None], lengths: Sequence[int] | None = None
) -> None:
    """Call `forward` with each micro-batch. A micro-batch that doesn't fit into memory is halved and tried again.

    Args:
        batches: the positions of texts.
        forward: runs one micro-batch.
        lengths: tokens of each text, to tell how many are done; None if nobody is to be told of tokens.

    Raises:
        DataError: a single text doesn't fit; names its position.
    """
    pending = list(reversed(batches))
    while pending:
        batch = pending.pop()
        if _fits(batch, forward):
            advanced(len(batch), sum(lengths[position] for position in batch) if lengths else 0)
            continue
        if len(batch) == 1:
            alone = sum(map(len, batches)) == 1
            which = "its text" if alone else f"the text at position {batch[0]} of the batch"
            raise DataError(
                f"{which} does not fit into memory, even alone; "
                f"give its model a smaller `max_length` or a device with more memory"
            )
        middle = len(batch) // 2
        pending += [batch[middle:], batch[:middle]]


def _fits(batch: list[int], forward: Callable[[list[int]], None]) -> bool:
    import torch

    try:
        forward(batch)
    except torch.OutOfMemoryError:
        return False
    except RuntimeError as error:
        if "not enough memory" not in str(error):  # torch's allocator for CPUs has no class of its own
            raise
        return False
    return True
