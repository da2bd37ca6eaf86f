"""Asks the nodes of a cluster what only they know, such as the memory of their GPUs."""

import logging
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from r2med_ray.distributed.nodes import alive_nodes
from r2med_ray.models.at_hand import gpu_memory_gb
from r2med_ray.settings.pools import ClusterCapacity

logger = logging.getLogger(__name__)

ANSWERS_WITHIN_S = 120.0
"""How long a node may take to answer: it starts a process, and that process imports this package."""


def largest_gpu_gb(capacity: ClusterCapacity) -> float | None:
    """Return the memory of the largest GPU that a worker may get, in GB; None if nobody knows it.

    Of a cluster that grows it is what the benchmark file says, because the nodes that are there may be the smallest.
    """
    if capacity.grows:
        return capacity.gpu_memory_gb
    if capacity.num_nodes == 1:
        return gpu_memory_gb()
    return most_of_any_node(gpu_memory_gb, "GPU")


def most_of_any_node(read: Callable[[], float | None], resource: str) -> float | None:
    """Have every node that has some of a resource read a number, and return the largest. Nothing is reserved.

    Args:
        read: runs on each such node; returns None where it can't tell.
        resource: Ray's name of the resource, e.g. `GPU`.

    Returns:
        The number; None if no node has the resource now or can tell, or no cluster is joined. A node that doesn't
        answer is named in the log.
    """
    task = ray.remote(num_cpus=0, max_retries=0)(read)
    asked: list[tuple[str, Any]] = []
    for node in alive_nodes() if ray.is_initialized() else []:
        if node["Resources"].get(resource):
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            asked.append((node["NodeManagerAddress"], task.options(scheduling_strategy=there).remote()))
    numbers = []
    for address, reference in asked:
        try:
            numbers.append(ray.get(reference, timeout=ANSWERS_WITHIN_S))
        except RayError as error:
            logger.warning("node %s was asked about its %s, and %s", address, resource, type(error).__name__)
    return max((number for number in numbers if number is not None), default=None)
