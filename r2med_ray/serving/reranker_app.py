"""A pair scorer behind Ray Serve: requests of many queries share the forward passes.

The scorer is a plain class from `models`, tested without Serve; the deployment only batches and counts.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ray import serve
from ray.serve.handle import DeploymentHandle

from r2med_ray.config import RerankResources
from r2med_ray.errors import DataError
from r2med_ray.protocols import PairScorer

Pair: TypeAlias = tuple[str, str]

CHARACTERS_PER_TOKEN = 4
"""Rough size of an English token; used to bound a batch before anything is tokenised."""

FORWARD_PASSES_PER_BATCH = 8
"""Token budgets that a Serve batch holds: enough to sort by length, little enough to answer soon."""


def estimated_tokens(pairs: Sequence[Pair]) -> int:
    """Return about how many tokens some pairs have."""
    return sum((len(query) + len(text)) // CHARACTERS_PER_TOKEN + 1 for query, text in pairs)


class PairScorerDeployment:
    """One replica: a scorer, and the batch that is forming for it."""

    def __init__(self, build_scorer: Callable[[], PairScorer], token_budget: int) -> None:
        self._scorer = build_scorer()
        self._token_budget = token_budget
        batch = serve.batch(
            max_batch_size=FORWARD_PASSES_PER_BATCH, batch_wait_timeout_s=0.02, batch_size_fn=self._forward_passes
        )
        self._score_together = batch(self._score_batch)

    def _forward_passes(self, requests: list[list[Pair]]) -> int:
        passes = math.ceil(sum(map(estimated_tokens, requests)) / self._token_budget)
        return min(passes, FORWARD_PASSES_PER_BATCH) if len(requests) == 1 else passes

    async def _score_batch(self, requests: list[list[Pair]]) -> list[list[float]]:
        pairs = [pair for request in requests for pair in request]
        scores = await asyncio.to_thread(self._scorer.score_pairs, pairs)
        if len(scores) != len(pairs):
            raise DataError(
                f"the scorer gave {len(scores)} scores for {len(pairs)} pairs; expected one score per pair"
            )
        remaining = iter(scores)
        return [[next(remaining) for _ in request] for request in requests]

    async def score(self, pairs: list[Pair]) -> list[float]:
        """Return one score per pair, in order."""
        return await self._score_together(pairs)


@contextlib.contextmanager
def serve_pair_scorer(
    name: str, build_scorer: Callable[[], PairScorer], resources: RerankResources, *, cpus: float, gpus: float
) -> Iterator[DeploymentHandle[PairScorerDeployment]]:
    """Run a scorer's application for the length of a `with` block, without an HTTP port.

    Args:
        name: name of the application; others on the same cluster are left alone.
        build_scorer: called once in every replica.
        resources: replicas, token budget, queue and deadline.
        cpus: CPUs a replica reserves.
        gpus: GPUs a replica reserves.
    """
    deployment = serve.deployment(
        name="pair-scorer",
        num_replicas=resources.replicas,
        ray_actor_options={"num_cpus": cpus, "num_gpus": gpus},
        max_ongoing_requests=2 * resources.max_in_flight,
        max_queued_requests=2 * resources.max_in_flight,
        max_constructor_retry_count=2,
        health_check_timeout_s=resources.timeout_s,
        logging_config={"enable_access_log": False},
    )(PairScorerDeployment)
    serve.start(proxy_location="Disabled", logging_config={"log_level": "WARNING"})
    try:
        yield serve.run(deployment.bind(build_scorer, resources.token_budget), name=name, route_prefix=None)
    finally:
        serve.delete(name)
