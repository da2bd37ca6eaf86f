"""What the first piece of an encoder's work tells: how fast a worker is, when all is done, what is far too slow."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.first_stages.making import READ_TOKENS, WORKED_S
from r2med_ray.models.catalog.row import Row
from r2med_ray.settings.pools import Pool
from r2med_ray.workbench.estimates import model_seconds, tflops_of

logger = logging.getLogger(__name__)

FAR_BELOW = 0.25
"""The share of what a device is taken at (`estimates.tflops_of`) below which a job warns."""

WORTH_A_WARNING_S = 60.0
"""Work that ends sooner is not warned of."""

SHORT = 32
"""Tokens of a text below which a pass has too little work for a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Judges the first piece of an encoder's work.

    Args:
        first_stage: its model does the work.
        pool: who does it.
        gpu: kind of the GPUs, as Ray names it; None if it isn't known.
        cpus: all CPUs that there are.
    """

    first_stage: ShardedFirstStage
    pool: Pool
    gpu: str | None
    cpus: float

    def __call__(self, numbers: Mapping[str, float], left: int) -> str:
        """Say in the log how fast a worker is and when all is done.

        Args:
            numbers: those of the piece, see `making.make_shard`.
            left: documents that are left.

        Returns:
            A warning, which is in the log too; empty if nothing is far too slow.
        """
        seconds, documents = numbers.get(WORKED_S, 0.0), numbers["documents"]
        if self.first_stage.work != "encode" or not (seconds and documents and left):
            return ""
        tokens, label = numbers.get(READ_TOKENS, 0), self.first_stage.label
        takes = left * seconds / documents / self.pool.actors
        ends = datetime.now() + timedelta(seconds=takes)
        logger.info(
            "%s: a worker does %.3g documents/s, %s tokens/s; %s documents are left, which %d worker(s) "
            "will have done in %.0f s, at %s",
            label,
            documents / seconds,
            f"{tokens / seconds:,.0f}",
            f"{left:,}",
            self.pool.actors,
            takes,
            f"{ends:%H:%M:%S}",
        )
        slow = "; ".join(self._too_slow(seconds, documents, tokens)) if takes >= WORTH_A_WARNING_S else ""
        if slow:
            logger.warning("%s: %s", label, slow)
        return slow

    def _too_slow(self, seconds: float, documents: float, tokens: float) -> Iterator[str]:
        """Yield what is far too slow, with the reason."""
        row = self.first_stage.row
        if isinstance(row, Row) and row.billions and tokens:
            peak = tflops_of(self.pool, self.gpu)
            share = model_seconds(row.billions, tokens, peak) / seconds
            if share < FAR_BELOW:
                device = "a GPU" if self.pool.gpus else f"{self.pool.threads} thread(s)"
                why = " and ".join(self._reasons(row, tokens / documents))
                reached = f"{share * peak:.2g} TFLOP/s, {share:.0%} of the {peak:.2g} expected of {device}"
                yield f"{reached}: {why}"
        used = self.pool.actors * self.pool.threads
        if not self.pool.gpus and used < FAR_BELOW * self.cpus:
            yield f"the workers compute with {used} of {self.cpus:g} CPUs: raise `resources.encode.actors` or `cpus`"

    def _reasons(self, row: Row, length: float) -> Iterator[str]:
        dtype = row.resolved_dtype(self.pool.device)
        known = {
            "float32 leaves the fast units of a GPU unused": bool(self.pool.gpus) and dtype == "float32",
            f"{dtype} may be slow on this CPU, `dtype: fastest` measures it": not self.pool.gpus
            and dtype != "float32",
            f"texts are short, {length:.0f} tokens on average": length < SHORT,
        }
        found = [reason for reason, holds in known.items() if holds]
        yield from found or ["other work on the machine, or a slower device than expected"]
