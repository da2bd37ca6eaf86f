"""What a cluster can become, from the first source that says it: the benchmark file, Ray, or the file of `ray up`.

Open-source Ray reports no configuration of its own; services that host Ray do. On Kubernetes, only the benchmark file
can say it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import ray
from pydantic import BaseModel, ValidationError
from ray._common.constants import HEAD_NODE_RESOURCE_NAME
from ray._private.state import state

from r2med_ray.distributed.nodes import alive_nodes, gpus_named
from r2med_ray.errors import ConfigError
from r2med_ray.settings.pools import ClusterCapacity, Node
from r2med_ray.settings.resources import WAIT_S, ClusterConfig
from r2med_ray.settings.row_problems import row_problem
from r2med_ray.settings.yaml_files import read_yaml

BENCHMARK_FILE = "`cluster:` of the benchmark file"
REPORTED = "the cluster's configuration, as Ray reports it"
LAUNCHER = Path("~/ray_bootstrap_config.yaml")
"""The file that `ray up` puts on the head (ray/autoscaler/_private/commands.py)."""

NO_LIMIT = 1000
"""Nodes that a group without a limit counts as. No stage takes more actors than it has shards."""


class _NodeType(BaseModel):
    resources: Mapping[str, float] = {}
    max_workers: int = 0


class _Launcher(BaseModel):
    head_node_type: str
    max_workers: int
    available_node_types: Mapping[str, _NodeType]


def can_become(cluster: ClusterConfig | None, there: ClusterCapacity) -> ClusterCapacity:
    """Return what the cluster that this process has joined can become.

    Args:
        cluster: what the benchmark file says of it.
        there: what it has. A node that is there counts, even if the source doesn't name it.

    Raises:
        ConfigError: this is the head of a cluster of `ray up`, whose file can't be read.
    """
    if cluster is not None:
        return with_nodes_there(named_by(cluster), there)
    reported = reported_by_ray()
    if reported is not None:
        return with_nodes_there(reported, there)
    if _is_head() and LAUNCHER.expanduser().exists():
        return with_nodes_there(named_by_launcher(LAUNCHER.expanduser()), there)
    return there


def named_by(cluster: ClusterConfig) -> ClusterCapacity:
    """Return the nodes that a benchmark file names."""
    nodes = (Node(**shape.model_dump(exclude={"max"})) for shape in cluster.nodes for _ in range(shape.max))
    return ClusterCapacity(nodes=tuple(nodes), source=BENCHMARK_FILE, wait_s=cluster.wait_s)


def reported_by_ray() -> ClusterCapacity | None:
    """Return the nodes of the configuration that Ray reports, within its limits; None if Ray reports none."""
    config = state.get_cluster_config()
    if config is None or not config.node_group_configs:
        return None
    nodes = [
        node_of(group.resources)
        for group in config.node_group_configs
        for _ in range(NO_LIMIT if group.max_count == -1 else group.max_count)
    ]
    limits = config.max_resources
    within = _within(nodes, cpus=limits.get("CPU", math.inf), gpus=limits.get("GPU", math.inf))
    return ClusterCapacity(nodes=tuple(within), source=REPORTED, wait_s=WAIT_S)


def named_by_launcher(path: Path) -> ClusterCapacity:
    """Return the nodes that a file of `ray up` names: its head, and as many workers as may be there at once.

    Raises:
        ConfigError: the file is not what `ray up` writes.
    """
    try:
        launcher = _Launcher.model_validate(read_yaml(path))
    except ValidationError as error:
        raise ConfigError(f"{path} of `ray up`: {row_problem(error.errors()[0], _Launcher)}") from error
    types = launcher.available_node_types
    if launcher.head_node_type not in types:
        raise ConfigError(f"{path} of `ray up`: head_node_type {launcher.head_node_type!r} is not an available type")
    workers = [node_of(kind.resources) for kind in types.values() for _ in range(kind.max_workers)]
    nodes = (node_of(types[launcher.head_node_type].resources), *_within(workers, count=launcher.max_workers))
    return ClusterCapacity(nodes=nodes, source=f"{LAUNCHER} of `ray up`", wait_s=WAIT_S)


def with_nodes_there(named: ClusterCapacity, there: ClusterCapacity) -> ClusterCapacity:
    """Return the nodes that are named, and those that are there and are not one of them by their CPUs and GPUs.

    A node with neither, such as a head that only leads, is left out.
    """
    others = [(node.cpus, node.gpus) for node in named.nodes]
    unnamed = []
    for node in there.nodes:
        if (node.cpus, node.gpus) in others:
            others.remove((node.cpus, node.gpus))
        else:
            unnamed.append(node)
    return replace(named, nodes=tuple(node for node in (*named.nodes, *unnamed) if node.cpus or node.gpus))


def node_of(resources: Mapping[str, float]) -> Node:
    """Return what Ray's resources say of a node. Ray splits memory into that of workers and that of objects."""
    memory = resources.get("memory", 0.0) + resources.get("object_store_memory", 0.0)
    kinds = gpus_named(resources)
    return Node(
        cpus=resources.get("CPU", 0.0),
        gpus=resources.get("GPU", 0.0),
        memory_gb=memory / 2**30 or None,
        accelerator=kinds[0] if kinds else None,
    )


def _within(
    nodes: Iterable[Node], *, count: float = math.inf, cpus: float = math.inf, gpus: float = math.inf
) -> Sequence[Node]:
    """Return nodes that may be there together, those with the most GPUs first, then those with the most CPUs."""
    kept: list[Node] = []
    for node in sorted(nodes, key=lambda node: (-node.gpus, -node.cpus)):
        if len(kept) < count and node.cpus <= cpus and node.gpus <= gpus:
            kept.append(node)
            cpus, gpus = cpus - node.cpus, gpus - node.gpus
    return kept


def _is_head() -> bool:
    here = ray.get_runtime_context().get_node_id()
    return any(node["NodeID"] == here and HEAD_NODE_RESOURCE_NAME in node["Resources"] for node in alive_nodes())
