"""The nodes that a cluster has now."""

from collections.abc import Iterable
from typing import Any

import ray

from r2med_ray.models.catalog.devices import processor_name

ACCELERATOR = "accelerator_type:"
"""What Ray puts before the kind of a node's GPUs, as the name of a resource."""


def alive_nodes() -> list[dict[str, Any]]:
    """Return what Ray says of each node that the cluster has now."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def gpus_named(resources: Iterable[str]) -> list[str]:
    """Return the kinds of GPUs among the names of a node's resources, e.g. `H100`."""
    return [name.removeprefix(ACCELERATOR) for name in resources if name.startswith(ACCELERATOR)]


def computer_of(gpus: float, accelerator: str | None = None) -> str:
    """Return what processes compute on, as far as Ray tells, e.g. `H100`; empty if it doesn't.

    Args:
        gpus: what each reserves.
        accelerator: the kind of GPU that each asked for.
    """
    nodes = alive_nodes()
    if gpus:
        return accelerator or " or ".join(sorted({name for node in nodes for name in gpus_named(node["Resources"])}))
    return processor_name() if len(nodes) == 1 else ""
