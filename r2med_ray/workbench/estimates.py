"""How long work takes: by what was measured, or else by the arithmetic of parameters and tokens. Pure numbers.

The arithmetic counts 2 FLOP for each token and each parameter outside the embeddings. It leaves out attention, which
adds some on long texts, and the time that a worker takes to start.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from r2med_ray.first_stages.stored_speed import Speed
from r2med_ray.settings.pools import Pool

DATA_SHEET_TFLOPS = {"H200": 989, "H100": 989, "A100": 312, "L40S": 362, "L4": 121, "V100": 125, "T4": 65}
"""Kind of GPU, as Ray names it → the most TFLOP/s of dense products in half precision, by its data sheet."""

REACHED = 400 / 989
"""The share of it that a model is taken to reach. A large bf16 product reached 798 of an H100's 989 TFLOP/s, and a
model is taken at half of that."""

UNKNOWN_GPU = "H100"
"""What a GPU of an unknown kind is taken for."""

CPU_TFLOPS = 0.05
"""What one CPU of a server is taken at, in float32: two CPUs reached 0.1 TFLOP/s in matrix products."""

TERMS_PER_S = 500_000
"""Tokens that one CPU tokenises for BM25 in a second: measured on the demo's texts, each 20 times."""

DOCUMENT_TOKENS = 231
"""Tokens of a document where they aren't known: R2MED has 82.5 M in 357,080 documents."""

QUERY_TOKENS = 300
"""Tokens of a query where they aren't known: R2MED's tasks have 107 to 602 words on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one stage has to do with one model."""

    stage: str
    model: str
    items: int
    unit: str
    """What the items are, e.g. documents."""

    tokens: float
    """Tokens of an item."""

    tokens_are: str
    """Where that number is from."""

    billions: float | None = None
    """Billions of parameters outside the embeddings; None if they aren't known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long work takes."""

    worker_seconds: float
    """Seconds of all workers together."""

    how: str
    """`measured` or `arithmetic`, and with what."""


def tflops_of(pool: Pool, gpu: str | None) -> float:
    """Return what one worker of a pool is taken at, in TFLOP/s; `gpu` is the kind, None if it isn't known."""
    if not pool.gpus:
        return CPU_TFLOPS * pool.threads
    return DATA_SHEET_TFLOPS.get(gpu or UNKNOWN_GPU, DATA_SHEET_TFLOPS[UNKNOWN_GPU]) * REACHED * pool.gpus


def model_seconds(billions: float, tokens: float, tflops: float) -> float:
    """Return the seconds that a model takes for tokens on a device of so many TFLOP/s."""
    return 2 * billions * 1e9 * tokens / (tflops * 1e12)


def estimate(work: Work, pool: Pool, gpu: str | None, speeds: Iterable[Speed]) -> Estimate | None:
    """Return how long work takes; None if nothing tells it.

    Args:
        work: the work.
        pool: who does it.
        gpu: kind of its GPUs, as Ray names it; None if it isn't known.
        speeds: what was measured with the same model, on any device.
    """
    rate = _rate([speed for speed in speeds if _is_same_device(speed, pool, gpu)], pool)
    if rate:
        return Estimate(worker_seconds=work.items / rate, how=f"measured: {rate:,.4g} {work.unit}/s per worker")
    if work.stage == "tokenize":
        return Estimate(
            worker_seconds=work.items * work.tokens / (TERMS_PER_S * pool.threads),
            how=f"arithmetic: {TERMS_PER_S:,} tokens/s per CPU",
        )
    if work.billions is None:
        return None
    tflops = tflops_of(pool, gpu)
    kind = gpu if gpu in DATA_SHEET_TFLOPS else f"GPU as if it were {UNKNOWN_GPU}"
    device = kind if pool.gpus else f"{pool.threads} CPU"
    return Estimate(
        worker_seconds=model_seconds(work.billions, work.items * work.tokens, tflops),
        how=f"arithmetic: {2 * work.billions:.3g} GFLOP per token, {tflops:.3g} TFLOP/s per {device}",
    )


def line(work: Work, pool: Pool, estimated: Estimate | None, *, most_workers: int) -> str:
    """Return what a plan says about work.

    Args:
        work: the work.
        pool: who does it.
        estimated: how long it takes.
        most_workers: how many may share it, e.g. one per shard.
    """
    what = f"{work.stage} {work.model}: {work.items:,} {work.unit} × {work.tokens:.0f} tokens ({work.tokens_are})"
    if estimated is None:
        return f"{what}: not estimated: nothing was measured, and the model's row has no `billions`"
    workers = max(1, min(pool.actors, most_workers))
    device, each = ("GPU", pool.gpus) if pool.gpus else ("CPU", pool.cpus)
    hours = estimated.worker_seconds / 3600
    spent = f"{_amount(hours / workers)} h with {workers} at once, {_amount(hours * each)} {device}-hours"
    return f"{what}: {spent} ({estimated.how})"


def _amount(hours: float) -> str:
    if hours < 0.01:
        return "under 0.01"
    return f"{hours:.2f}" if hours < 10 else f"{hours:,.0f}"


def _rate(speeds: Sequence[Speed], pool: Pool) -> float:
    """Return the items per second of one worker; 0 if nothing was measured. CPUs count by their number."""
    share = 1 if pool.gpus else pool.threads
    spent = sum(speed.seconds * (1 if pool.gpus else speed.threads) for speed in speeds)
    return sum(speed.documents for speed in speeds) / spent * share if spent else 0.0


def _is_same_device(speed: Speed, pool: Pool, gpu: str | None) -> bool:
    """Return whether a speed was measured on such a device. A driver's name contains Ray's: `NVIDIA L40S`, `L40S`."""
    if not pool.gpus:
        return speed.device == "cpu"
    return gpu is not None and gpu in speed.device.replace("-", " ").split()
