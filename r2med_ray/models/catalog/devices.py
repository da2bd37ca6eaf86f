"""The device and the dtype of this machine, and how many tokens go through a model at once."""

import platform
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

Dtype: TypeAlias = Literal["float32", "bfloat16", "float16"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)


class BatchLimits(NamedTuple):
    """Two limits on the padded tokens of one forward pass."""

    most: int
    """The most padded tokens of a pass, except for a single text that is longer."""

    few: int
    """Padded tokens up to which texts of any lengths go together, because padding costs less than another pass."""

    at_once: bool = False
    """Whether passes run at the same time, each in one thread."""


ALONE = BatchLimits(most=1, few=1, at_once=True)
"""Each text is a pass of its own, without padding, in one thread.

The last bits of a matrix product depend on the shape of the whole product, so they depend on the other texts of a
pass; they may depend on the number of threads, too. A text alone gets the same bits in any batch, shard and order. It
costs time, because every pass reads all weights. On one core, MiniLM took 1.1 times as long as in micro-batches of
2,048 tokens for documents as long as R2MED's, 1.3 times for queries of 120 tokens, 1.4 times for texts of 80 tokens,
2.3 times for 30, and 4 times for 10."""


def best_device() -> str:
    """Return `cuda` if torch sees a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device_name(device: str) -> str:
    """Return what the driver of this machine's GPU calls it, for `cuda`; else the device's own name."""
    if not device.startswith("cuda"):
        return device
    import torch

    return torch.cuda.get_device_name()


@cache
def processor_name(cpu_info: Path = Path("/proc/cpuinfo")) -> str:
    """Return what Linux calls the CPU of this machine; its architecture if Linux can't be asked, or gives no name."""
    lines = cpu_info.read_text().splitlines() if cpu_info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, names), platform.machine())


def best_dtype(device: str) -> Dtype:
    """Return the dtype `auto` of a device.

    On a GPU the dtype is bfloat16, or float16 if the chip computes no bfloat16 (before Ampere). A machine without a
    GPU answers bfloat16 for `cuda`. On a CPU and on all other devices it is float32: whether a CPU gains from
    bfloat16 has to be measured, see `fastest`.
    """
    if device.startswith("cuda"):
        import torch

        native = not torch.cuda.is_available() or torch.cuda.is_bf16_supported(including_emulation=False)
        return "bfloat16" if native else "float16"
    return "float32"


class Share(NamedTuple):
    """What an engine that manages its own memory may take of a device."""

    gpus: float = 1.0
    """GPUs of its worker: a part of one if several workers share it."""

    token_budget: int = 16_384
    """Tokens that go through the model together."""

    kv_cache_gib: int = 4
    """GiB of memory for keys and values on a CPU."""


PACKED_PASSES = 8
"""Passes of an engine that packs texts without padding, per call: one after the other, they leave no part of a pass
empty but of the last one."""


def packed_limits(token_budget: int) -> BatchLimits:
    """Return the limits of one call of an engine that packs texts of any lengths into passes of `token_budget`."""
    return BatchLimits(most=PACKED_PASSES * token_budget, few=PACKED_PASSES * token_budget)


def batch_limits(device: str, token_budget: int, *, stateless: bool = True) -> BatchLimits:
    """Return the limits of one pass: `token_budget` on an accelerator, and on a CPU one text (`ALONE`).

    On a CPU, passes of a model that isn't `stateless` run one after the other, each in all threads.
    """
    if device == "cpu":
        return ALONE._replace(at_once=ALONE.at_once and stateless)
    return BatchLimits(most=token_budget, few=min(token_budget, 4096))


ONE_PASS = {"pass": "one text"}
"""What a key says where a vector or a score depends on its own text alone."""


def pass_inputs(device: str) -> dict[str, str]:
    """Return what the key of a vector or a score says about the texts of one pass.

    It is nothing on an accelerator, where the key doesn't tell what went through the model together.
    """
    device = best_device() if device == "auto" else device
    return ONE_PASS if device == "cpu" else {}


def set_threads(count: int) -> None:
    """Let torch compute with `count` threads in this process."""
    import torch

    torch.set_num_threads(count)


def prepare_worker(threads: int) -> None:
    """Set up a process that only loads a model and computes: set its threads, and turn off progress bars."""
    from transformers.utils import logging

    set_threads(threads)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
