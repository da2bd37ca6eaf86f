"""Serves a pair scorer with Ray Serve.

A request holds pairs of many queries. On a GPU its pairs share the scorer's forward passes, and the last bits of a
score depend on the other pairs of its forward pass. But two runs of a benchmark must give the same file. So
requests are packed by token budget in one fixed order (`reranking.pair_requests`). Serve itself would pack pairs as
they arrive.

The scorer is a plain class from `models` and is tested without Serve. The deployment gives it one request at a time.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from ray import serve
from ray.serve.handle import DeploymentHandle

from r2med_ray.errors import DataError
from r2med_ray.first_stage import Computing
from r2med_ray.first_stages.stored_speed import score_timed
from r2med_ray.protocols import PairScorer
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.serving.serve_session import IDLE_REPLICA_ENDS_S, end_application, start_serve
from r2med_ray.serving.start_failures import run_application
from r2med_ray.settings.resources import NO_PROGRESS_TIMEOUT_S, RerankResources

Pair: TypeAlias = tuple[str, str]

IN_FLIGHT_PER_REPLICA = 4
"""Requests that are open for each replica. One is scored and one waits at the replica. Scores are taken in the order
of the requests, and the other two keep it busy while one elsewhere takes long."""


IDLE_S = 10.0
"""Seconds after which a replica leaves, once there is too little work. Serve's own number is 600."""


class PairScorerDeployment:
    """One replica: a scorer and the queue in front of it."""

    def __init__(self, build_scorer: Callable[[], PairScorer], computing: Computing) -> None:
        self._scorer = build_scorer()
        self._computing = computing
        self._turn = asyncio.Lock()

    async def score(self, pairs: Sequence[Pair]) -> Scored:
        """Return one score per pair, in order, and what was cut for the pairs.

        Raises:
            DataError: the scorer gave more or fewer scores than pairs.
        """
        async with self._turn:
            scored = await asyncio.to_thread(score_timed, self._scorer, pairs, self._computing)
        if len(scored.scores) != len(pairs):
            raise DataError(
                f"the scorer gave {len(scored.scores)} scores for {len(pairs)} pairs; expected one score per pair"
            )
        return scored


@contextlib.contextmanager
def serve_pair_scorer(
    name: str,
    build_scorer: Callable[[], PairScorer],
    resources: RerankResources,
    *,
    computing: Computing = Computing(),  # noqa: B008
    cpus: float,
    gpus: float,
    replicas: int = 1,
    start_within_s: float = NO_PROGRESS_TIMEOUT_S,
) -> Iterator[DeploymentHandle[PairScorerDeployment]]:
    """Run a scorer's application during a `with` block, without an HTTP port.

    Args:
        name: name of the application. Other applications of the cluster are left alone.
        build_scorer: makes the scorer. It is called once in every replica.
        resources: replicas, queue and deadline.
        computing: what a replica computes with.
        cpus: CPUs that a replica reserves.
        gpus: GPUs that a replica reserves.
        replicas: how many there are. Under `replicas: auto` there may be as many: the first one begins alone, so
            that no scoring waits for a replica that has no place yet.
        start_within_s: seconds that the start of all replicas may take.

    Yields:
        The handle that `clients.ServedReranker` sends its requests to.

    Raises:
        StageError: a replica can't build its scorer, and the message is the replica's own exception; or see
            `start_within_s`.
    """
    deployment = serve.deployment(
        name="pair-scorer",
        **_number_of(replicas, is_fixed=resources.replicas != "auto"),
        ray_actor_options={"num_cpus": cpus, "num_gpus": gpus},
        max_ongoing_requests=2,  # one is scored and one waits; other requests are free for another replica
        max_queued_requests=2 * in_flight(resources, replicas),
        max_constructor_retry_count=2,
        health_check_timeout_s=resources.timeout_s,
        graceful_shutdown_wait_loop_s=IDLE_REPLICA_ENDS_S,
        logging_config={"enable_access_log": False},
    )(PairScorerDeployment)
    start_serve(http=False)
    application, what = deployment.bind(build_scorer, computing), f"reranker {name!r}"
    try:
        yield run_application(application, what=what, name=name, within_s=start_within_s, route_prefix=None)
    finally:
        end_application(name)


def in_flight(resources: RerankResources, replicas: int) -> int:
    """Return how many requests a client keeps open at once."""
    return max(resources.max_in_flight, IN_FLIGHT_PER_REPLICA * replicas)


def _number_of(replicas: int, *, is_fixed: bool) -> dict[str, Any]:
    """Return the options that say how many replicas a deployment has."""
    if is_fixed or replicas == 1:
        return {"num_replicas": replicas}
    # The requests that are open ask for twice as many replicas as there may be, so Serve adds all of them at once.
    limits = {"min_replicas": 1, "max_replicas": replicas, "upscale_delay_s": 0}
    return {"autoscaling_config": {**limits, "downscale_delay_s": IDLE_S}}
