"""The connection to a cluster: joins the one it is told to, or starts its own and ends only that."""

import contextlib
import logging
import os
import secrets
from collections.abc import Iterator

import ray

from r2med_ray.capacity import ClusterCapacity

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def connect(address: str = "auto", *, num_cpus: int | None = None) -> Iterator[ClusterCapacity]:
    """Connect to a cluster for the length of a `with` block.

    Args:
        address: `local` starts a cluster on this machine; an address joins that cluster; `auto` joins the one
            that RAY_ADDRESS names, as it does inside `ray job submit`, and starts a local one where it names none.
            A cluster that merely happens to run on this machine is never joined.
        num_cpus: logical CPUs of a cluster that is started here.

    A connection that the process already has is used and left as it is.
    """
    already_connected = ray.is_initialized()
    target = address if address != "auto" else os.environ.get("RAY_ADDRESS", "local")
    started_here = not already_connected and target == "local"
    if started_here:
        # A token of its own: Ray would otherwise create or reuse the one that all clusters of this user share.
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        ray.init(address="local", num_cpus=num_cpus, include_dashboard=False)
    elif not already_connected:
        ray.init(address=target)
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    nodes = [
        node["Resources"]
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"]
    ]
    capacity = ClusterCapacity(
        num_nodes=len(nodes),
        cpus=resources.get("CPU", 0.0),
        gpus=resources.get("GPU", 0.0),
        cpus_of_largest_node=max(node.get("CPU", 0.0) for node in nodes),
        memory_gb_of_largest_node=max(_memory_gb(node) for node in nodes),
    )
    origin = "started for this job" if started_here else "joined"
    logger.info("Ray %s, %s: %s", ray.__version__, origin, capacity.describe())
    try:
        yield capacity
    finally:
        if not already_connected:
            ray.shutdown()


def _memory_gb(node: dict[str, float]) -> float:
    """Return what a node had free when it joined: Ray splits it into memory of workers and of its object store."""
    return (node.get("memory", 0.0) + node.get("object_store_memory", 0.0)) / 2**30
