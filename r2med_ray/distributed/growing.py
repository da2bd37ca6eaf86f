"""A cluster that grows: what it can become, and the wait for the nodes that a stage needs.

Ray's autoscaler starts nodes for actors that are pending. A stage asks for all of its actors at once before it
begins, so that their nodes come together, and says what it waits for.
"""

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray.autoscaler.sdk import request_resources

from r2med_ray.distributed.session import capacity_now
from r2med_ray.errors import CapacityError, StoppedError
from r2med_ray.settings.pools import ClusterCapacity, Node, Pool
from r2med_ray.settings.resources import ClusterConfig

logger = logging.getLogger(__name__)

LOOKS_EVERY_S = 1.0
TELLS_EVERY_S = 60.0


def capacity_of(cluster: ClusterConfig) -> ClusterCapacity:
    """Return what a cluster can become."""
    nodes = (
        Node(cpus=shape.cpus, gpus=shape.gpus, memory_gb=shape.memory_gb)
        for shape in cluster.nodes
        for _ in range(shape.max)
    )
    return ClusterCapacity(nodes=tuple(nodes), grows=True)


def wait_for_nodes(what: str, pool: Pool, *, beside: float, wait_s: float, stop: threading.Event) -> None:
    """Ask the autoscaler for the actors of a stage, and wait until there are nodes for them.

    Each request takes the place of the one before, so what was asked for an earlier stage may go. The request is made
    again while the stage waits: an actor of Ray Data, which outlives the job that started it, sends its own every
    20 seconds (`_AutoscalingCoordinatorActor` in ray/data/_internal/cluster_autoscaler).

    Args:
        what: the stage, in words.
        pool: its actors.
        beside: CPUs of the tasks that run beside them.
        wait_s: how long to wait.
        stop: ends the wait.

    Raises:
        CapacityError: the nodes did not come in time.
        StoppedError: `stop` was set.
    """
    each = {name: amount for name, amount in (("CPU", pool.cpus), ("GPU", pool.gpus)) if amount}
    bundles = [*[each] * pool.actors, *([{"CPU": beside}] if beside else [])]
    began = told = time.monotonic()
    while True:
        request_resources(bundles=bundles)
        if _have_room(now := capacity_now(), pool, beside):
            return
        waited = time.monotonic() - began
        needed = f"{what} needs {pool.describe()}, and the cluster has {now.describe()}"
        if waited > wait_s:
            raise CapacityError(
                f"{needed} after {waited / 60:.0f} min. Look at `ray status` for why no nodes come, or set a larger "
                "`cluster.wait_s`"
            )
        if told == began or time.monotonic() - told > TELLS_EVERY_S:
            told = time.monotonic()
            logger.info("waiting for nodes: %s (%.0f of %.0f min)", needed, waited / 60, math.ceil(wait_s / 60))
        if stop.wait(LOOKS_EVERY_S):
            raise StoppedError(f"{what}: stopped while it waited for nodes")


@contextmanager
def given_back(cluster: ClusterConfig | None) -> Iterator[None]:
    """Ask for no nodes any more when the block ends, so that a cluster that grows can shrink."""
    try:
        yield
    finally:
        if cluster is not None and ray.is_initialized():
            request_resources(bundles=[])


def _have_room(now: ClusterCapacity, pool: Pool, beside: float) -> bool:
    cpus_left = now.cpus - pool.actors * pool.cpus - beside
    return cpus_left >= 0 and now.places(pool.cpus, pool.gpus) >= pool.actors
