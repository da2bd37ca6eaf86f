"""A cluster that grows: the wait for the nodes that a stage needs.

Ray's autoscaler starts nodes for actors that are pending. A stage asks for all of its actors at once before it
begins, so that their nodes come together, and says what it waits for. It asks for them until it ends.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

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

Bundles: TypeAlias = Sequence[Mapping[str, float]]
"""What actors and tasks reserve, each its own."""


class NodeRequests:
    """What the autoscaler is asked for: the nodes of all stages that need some now.

    Ray keeps one request, which the next one takes the place of. So each time a stage begins or ends, the sum of what
    all need is asked for, and nodes that no stage needs any more can go.
    """

    def __init__(self) -> None:
        self._standing: dict[object, Bundles] = {}
        self._turn = threading.Lock()

    @contextmanager
    def held(self, what: str, pool: Pool, *, beside: float, wait_s: float, stop: threading.Event) -> Iterator[None]:
        """Ask for the actors of a stage, wait until there are nodes for them, and ask for them as long as the block.

        The request is made again while the stage waits: an actor of Ray Data, which outlives the job that started it,
        sends its own every 20 seconds (`_AutoscalingCoordinatorActor` in ray/data/_internal/cluster_autoscaler).

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
        stage = object()
        each = {name: amount for name, amount in (("CPU", pool.cpus), ("GPU", pool.gpus)) if amount}
        self._ask(stage, [*[each] * pool.actors, *([{"CPU": beside}] if beside else [])])
        try:
            self._wait(stage, what, pool, Wait(wait_s, tells_at_once=True), stop)
            yield
        finally:
            self._ask(stage, [])

    def _ask(self, stage: object, bundles: Bundles) -> Bundles:
        """Ask for what one stage needs and all others do; return all of it."""
        with self._turn:
            self._standing[stage] = bundles
            if not bundles:
                del self._standing[stage]
            together = [dict(bundle) for standing in self._standing.values() for bundle in standing]
            if ray.is_initialized():
                request_resources(bundles=together)
            return together

    def _wait(self, stage: object, what: str, pool: Pool, wait: Wait, stop: threading.Event) -> None:
        with doing(f"waiting for nodes for {what}"):
            while True:
                bundles = self._ask(stage, self._standing[stage])
                if _have_room(now := capacity_now(), pool, bundles):
                    return
                needed = f"{what} needs {pool.describe()}, and the cluster has {now.describe()}"
                if is_infeasible(bundles):
                    raise CapacityError(
                        f"{needed}; Ray's autoscaler says that {_in_words(bundles)} is infeasible with the kinds of "
                        "nodes and the limits that it was configured with. Lower `resources`, or raise the limits"
                    )
                if not wait.goes_on(f"nodes: {needed}"):
                    raise CapacityError(
                        f"{needed} after {wait.lasted_s / 60:.0f} min. Look at `ray status` for why no nodes come, "
                        "or set a larger `cluster.wait_s`"
                    )
                metrics.waited_for_nodes().inc(LOOKS_EVERY_S, {"stage": what})
                if stop.wait(LOOKS_EVERY_S):
                    raise StoppedError(f"{what}: stopped while it waited for nodes")


def is_infeasible(bundles: Bundles) -> bool:
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


def _counted(bundles: Bundles) -> Counter[frozenset[tuple[str, float]]]:
    return Counter(map(_shape, bundles))


def _in_words(bundles: Bundles) -> str:
    return " + ".join(
        f"{count} × ({', '.join(f'{amount:g} {name}' for name, amount in sorted(shape))})"
        for shape, count in _counted(bundles).items()
    )


def _have_room(now: ClusterCapacity, pool: Pool, bundles: Bundles) -> bool:
    """Return whether a cluster has what all bundles reserve together, and nodes for one pool of them."""
    cpus, gpus = (sum(bundle.get(name, 0.0) for bundle in bundles) for name in ("CPU", "GPU"))
    has_all = cpus <= now.cpus + 1e-9 and gpus <= now.gpus + 1e-9  # sums of fractions are not exact
    return has_all and now.places(pool.cpus, pool.gpus) >= pool.actors
