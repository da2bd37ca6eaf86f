"""Runs the passes of a model: on a GPU one after the other, on a CPU as many at once as torch has threads.

One pass in several threads is slower than several passes in one thread each: its threads wait for each other at every
layer, and do nothing while a layer's small steps run in one of them. For documents as long as R2MED's, MiniLM on two
cores took 1.3 times as long. It also lets the last bits of a matrix product depend on the number of threads.

Shape letters: B texts of a micro-batch, N texts of all, D embedding size.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from r2med_ray.activity import advanced
from r2med_ray.errors import DataError
from r2med_ray.models.catalog.devices import BatchLimits
from r2med_ray.models.networks.token_budget import plan_batches
from r2med_ray.types import FloatMatrix

if TYPE_CHECKING:
    from torch import Tensor, nn

Forward: TypeAlias = Callable[[list[int]], None]

KNOWN_PACKAGES = frozenset({"torch", "transformers", "sentence_transformers", "peft"})


def is_stateless(model: "nn.Module") -> bool:
    """Return whether passes of a model can run at once: no pass changes what another one reads.

    Code that comes with a checkpoint may change anything. In transformers, rotary frequencies that depend on the
    length of the text are put into the model in each pass, and BigBird changes its kind of attention after a short
    text.
    """
    return not any(
        type(module).__module__.partition(".")[0] not in KNOWN_PACKAGES
        or any(word in str(getattr(module, "rope_type", "")) for word in ("dynamic", "longrope"))
        or hasattr(module, "set_attention_type")
        for module in model.modules()
    )


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

    run_batches(lengths, limits, forward)
    with torch.inference_mode():
        vectors_ND = torch.empty((len(lengths), dim), dtype=torch.float32)
        vectors_ND[[position for batch, _ in parts for position in batch]] = torch.cat(
            [vectors_BD for _, vectors_BD in parts]
        ).cpu()
    encoded: FloatMatrix = vectors_ND.numpy()
    return encoded


def run_batches(lengths: Sequence[int], limits: BatchLimits, forward: Forward) -> None:
    """Call `forward` with each micro-batch of the texts, without gradients, and tell how far it is.

    A micro-batch that doesn't fit into memory is tried again when no other one runs: in halves, if it has several
    texts.

    Args:
        lengths: tokens of each text.
        limits: the limits on a micro-batch; whether micro-batches run at once.
        forward: runs a micro-batch, given the positions of its texts; in several threads if they run at once.

    Raises:
        DataError: a single text doesn't fit; names its position.
    """
    batches = plan_batches(lengths, limits)

    def note(batch: list[int]) -> None:
        advanced(len(batch), sum(lengths[position] for position in batch))

    if not limits.at_once:
        return _one_by_one(batches, forward, note, len(lengths))
    with _one_thread_each() as threads:
        rest = _side_by_side(batches, forward, note, threads) if threads > 1 else batches
        return _one_by_one(rest, forward, note, len(lengths))


def _one_by_one(batches: Sequence[list[int]], forward: Forward, note: Forward, texts: int) -> None:
    """Run micro-batches of a call that has so many texts."""
    pending = list(reversed(batches))
    while pending:
        batch = pending.pop()
        if _fits(batch, forward):
            note(batch)
            continue
        if len(batch) == 1:
            which = "its text" if texts == 1 else f"the text at position {batch[0]} of the batch"
            raise DataError(
                f"{which} does not fit into memory, even alone; "
                f"give its model a smaller `max_length` or a device with more memory"
            )
        middle = len(batch) // 2
        pending += [batch[middle:], batch[:middle]]


def _side_by_side(batches: Sequence[list[int]], forward: Forward, note: Forward, threads: int) -> Sequence[list[int]]:
    """Run micro-batches at once, and return those that didn't fit beside the others."""
    import torch

    unfit: list[list[int]] = []
    pool = ThreadPoolExecutor(threads, initializer=partial(torch.set_num_threads, 1))
    try:
        for batch, fits in zip(batches, pool.map(partial(_fits, forward=forward), batches), strict=True):
            if fits:
                note(batch)
            else:
                unfit.append(batch)
    finally:
        pool.shutdown(cancel_futures=True)
    return unfit


@contextmanager
def _one_thread_each() -> Iterator[int]:
    """Let each thread of this process compute alone in the block, which is given the number of torch's threads."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def _fits(batch: list[int], forward: Forward) -> bool:
    import torch

    try:
        with torch.inference_mode():  # which holds in one thread
            forward(batch)
    except torch.OutOfMemoryError:
        return False
    except RuntimeError as error:
        if "not enough memory" not in str(error):  # torch's allocator for CPUs has no class of its own
            raise
        return False
    return True
