"""A cluster that grows: the wait for the nodes that a stage needs.

Ray's autoscaler starts nodes for actors that are pending. A stage asks for all of its actors at once before it
begins, so that their nodes come together, and says what it waits for.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.autoscaler.sdk import request_resources
from ray.core.generated.autoscaler_pb2 import GetClusterStatusReply  # type: ignore[attr-defined]

from r2med_ray.activity import doing
from r2med_ray.distributed import metrics
from r2med_ray.distributed.session import capacity_now
from r2med_ray.errors import CapacityError, StoppedError
from r2med_ray.settings.pools import ClusterCapacity, Pool
from r2med_ray.waiting import LOOKS_EVERY_S, Wait


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
        CapacityError: the nodes did not come in time, or Ray's autoscaler says that it can't start them.
        StoppedError: `stop` was set.
    """
    each = {name: amount for name, amount in (("CPU", pool.cpus), ("GPU", pool.gpus)) if amount}
    bundles = [*[each] * pool.actors, *([{"CPU": beside}] if beside else [])]
    wait = Wait(wait_s, tells_at_once=True)
    with doing(f"waiting for nodes for {what}"):
        while True:
            request_resources(bundles=bundles)
            if _have_room(now := capacity_now(), pool, beside):
                return
            needed = f"{what} needs {pool.describe()}, and the cluster has {now.describe()}"
            if is_infeasible(bundles):
                raise CapacityError(
                    f"{needed}; Ray's autoscaler says that {_in_words(bundles)} is infeasible with the kinds of "
                    "nodes and the limits that it was configured with. Lower `resources`, or raise the limits"
                )
            if not wait.goes_on(f"nodes: {needed}"):
                raise CapacityError(
                    f"{needed} after {wait.lasted_s / 60:.0f} min. Look at `ray status` for why no nodes come, or "
                    "set a larger `cluster.wait_s`"
                )
            metrics.waited_for_nodes().inc(LOOKS_EVERY_S, {"stage": what})
            if stop.wait(LOOKS_EVERY_S):
                raise StoppedError(f"{what}: stopped while it waited for nodes")


def is_infeasible(bundles: Sequence[Mapping[str, float]]) -> bool:
    """Return whether Ray's autoscaler says that it can never have nodes for all these bundles at once.

    Ray's second autoscaler alone says so, within a second or so of the request, and starts nothing then. What it says
    of an earlier request is not taken for an answer to this one.
    """
    reply = GetClusterStatusReply.FromString(GcsClient(ray.get_runtime_context().gcs_address).get_cluster_status())
    asked = _counted(bundles)
    return any(
        asked == {_shape(each.request.resources_bundle): each.count for each in constraint.resource_requests}
        for constraint in reply.autoscaling_state.infeasible_cluster_resource_constraints
    )


@contextmanager
def given_back(capacity: ClusterCapacity) -> Iterator[None]:
    """Ask for no nodes any more when the block ends, so that a cluster that grows can shrink."""
    try:
        yield
    finally:
        if capacity.grows and ray.is_initialized():
            request_resources(bundles=[])


def _shape(bundle: Mapping[str, float]) -> frozenset[tuple[str, float]]:
    return frozenset(bundle.items())


def _counted(bundles: Sequence[Mapping[str, float]]) -> Counter[frozenset[tuple[str, float]]]:
    return Counter(map(_shape, bundles))


def _in_words(bundles: Sequence[Mapping[str, float]]) -> str:
    return " + ".join(
        f"{count} × ({', '.join(f'{amount:g} {name}' for name, amount in sorted(shape))})"
        for shape, count in _counted(bundles).items()
    )


def _have_room(now: ClusterCapacity, pool: Pool, beside: float) -> bool:
    cpus_left = now.cpus - pool.actors * pool.cpus - beside
    return cpus_left >= 0 and now.places(pool.cpus, pool.gpus) >= pool.actors
