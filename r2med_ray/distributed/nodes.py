"""The nodes that a cluster has now."""

from typing import Any

import ray


def alive_nodes() -> list[dict[str, Any]]:
    """Return what Ray says of each node that the cluster has now."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
