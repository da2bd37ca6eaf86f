"""Nodes are asked what only they know, without reserving anything of them."""

import logging
import os

import psutil
import pytest
import ray

from r2med_ray.distributed.asking_nodes import largest_gpu_gb, most_of_any_node
from r2med_ray.settings.pools import ClusterCapacity, Node

pytestmark = pytest.mark.ray


def memory_gb() -> float:
    return float(psutil.virtual_memory().total / 2**30)


def end_the_process() -> float:
    os._exit(1)


def test_a_node_tells_its_memory_while_all_of_it_is_reserved(cluster: ClusterCapacity) -> None:
    everything = ray.remote(num_cpus=cluster.cpus)(Idle).remote()
    ray.get(everything.ready.remote())
    try:
        assert most_of_any_node(memory_gb, "CPU") == memory_gb()
    finally:
        ray.kill(everything)


class Idle:
    def ready(self) -> None: ...


def test_a_cluster_without_gpus_knows_no_memory_of_gpus(cluster: ClusterCapacity) -> None:
    assert largest_gpu_gb(ClusterCapacity(nodes=(Node(cpus=8, gpus=1),) * 2)) is None


def test_a_node_that_does_not_answer_is_named_in_the_log(
    cluster: ClusterCapacity, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert most_of_any_node(end_the_process, "CPU") is None

    [said] = caplog.messages
    assert said == f"node {ray.util.get_node_ip_address()} was asked about its CPU, and WorkerCrashedError"
