"""Starts nodes of a Ray cluster by hand, as processes of their own."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml
from ray._private.services import get_node_ip_address
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID, FakeMultiNodeProvider

from tests.integration.jobs import RunningJob, environment

RAY = Path(sys.executable).parent / "ray"

GROWING = {
    "RAY_FAKE_CLUSTER": "1",
    "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    "RAY_enable_autoscaler_v2": "1",
    "RAY_CLOUD_INSTANCE_ID": FAKE_HEAD_NODE_ID,
    "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID,
}
"""The environment of a head that starts nodes."""

WITHOUT_COMMANDS = (
    *("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands"),
    *(
        "head_start_ray_commands",
        "worker_start_ray_commands",
        "cluster_synced_files",
        "rsync_exclude",
        "rsync_filter",
    ),
)
"""Lists that the configuration of an autoscaler must have."""


def free_ports(count: int) -> list[int]:
    """Ports that no process listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


class Nodes:
    """The nodes of one cluster on this machine.

    Args:
        logs: gets a log per node.
        scratch: a folder for sockets and for what Ray writes. Its path is short, because the path of a socket has a
            limit of 107 bytes.
        env: the environment of the nodes.
    """

    def __init__(self, logs: Path, scratch: str, env: Mapping[str, str]) -> None:
        self._folder = logs
        self._scratch = scratch
        self._env = env
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a node with some arguments of `ray start`, and wait until it runs."""
        agent, metrics = free_ports(2)
        command = [
            RAY, "start", "--block", "--node-ip-address=127.0.0.1", f"--dashboard-agent-listen-port={agent}",
            f"--metrics-export-port={metrics}", *arguments,
        ]  # fmt: skip
        log = self._folder / f"{agent}.log"
        with log.open("w") as stream:
            node = subprocess.Popen(command, env=self._env, start_new_session=True, stdout=stream, stderr=stream)
        self._running.append(node)
        # Two nodes that start at once may give their sockets the same names, so nothing else starts until then.
        RunningJob(node, log).wait_for("running node", lambda: "Ray runtime started" in log.read_text())
        return node

    def start_head(self, *arguments: str, cpus: int = 0, dashboard: int | None = None) -> str:
        """Start the first node. Return the address of the cluster.

        Args:
            arguments: further arguments of `ray start`.
            cpus: the CPUs of the node.
            dashboard: the port of the dashboard, which takes submitted jobs; None for a cluster without one.
        """
        port, client = free_ports(2)
        shown = "--include-dashboard=false" if dashboard is None else f"--dashboard-port={dashboard}"
        self.start(
            "--head", f"--num-cpus={cpus}", f"--port={port}", shown, f"--ray-client-server-port={client}",
            f"--temp-dir={self._scratch}", *arguments,
        )  # fmt: skip
        return f"127.0.0.1:{port}"

    def start_growing_head(self, **kinds: Mapping[str, float]) -> str:
        """Start a head without CPUs, whose autoscaler starts nodes on this machine. Return the cluster's address.

        The autoscaler is Ray's second one. Its provider is that of Ray's own tests, named as one from elsewhere: for
        its own name, Ray reads a file that is not in its wheel. The environment has to be `GROWING`.

        Args:
            kinds: name → CPU and GPU of a kind of nodes. There is at most one node of each.
        """
        port, client = free_ports(2)
        host = get_node_ip_address()  # of the nodes that the provider starts
        config = {
            "cluster_name": "growing",
            "max_workers": len(kinds),
            "idle_timeout_minutes": 0.2,
            "provider": {
                "type": "external",
                "module": f"{FakeMultiNodeProvider.__module__}.{FakeMultiNodeProvider.__name__}",
                "gcs_address": f"{host}:{port}",
                "head_node_id": FAKE_HEAD_NODE_ID,
                "launch_multiple": True,
                **dict.fromkeys(("disable_node_updaters", "disable_launch_config_check", "use_node_id_as_ip"), True),
            },
            **{name: {} for name in ("auth", "docker", "file_mounts")},
            **{name: [] for name in WITHOUT_COMMANDS},
            "file_mounts_sync_continuously": False,
            "upscaling_speed": 1,
            "head_node_type": "ray.head.default",
            "available_node_types": {
                "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
                **{
                    name: {"resources": dict(has), "node_config": {}, "max_workers": 1} for name, has in kinds.items()
                },
            },
        }
        file = self._folder / "autoscaling.yaml"
        file.write_text(yaml.safe_dump(config))
        self.start(
            "--head", "--num-cpus=0", f"--port={port}", "--include-dashboard=false", f"--temp-dir={self._scratch}",
            f"--ray-client-server-port={client}", f"--autoscaling-config={file}", f"--node-ip-address={host}",
        )  # fmt: skip
        return f"{host}:{port}"

    def end(self, node: "subprocess.Popen[bytes]") -> None:
        """End a node as a power cut would: all its processes at once."""
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(node.pid, signal.SIGKILL)
        node.wait(timeout=60)
        self._running.remove(node)

    def end_all(self) -> None:
        for node in list(self._running):
            self.end(node)


@contextmanager
def nodes_in(folder: Path, *, env: Mapping[str, str] | None = None) -> Iterator[Nodes]:
    """Nodes that end with the block. Their environment is, by default, that of the tests."""
    with tempfile.TemporaryDirectory(prefix="r2med-", dir="/tmp", ignore_cleanup_errors=True) as scratch:
        nodes = Nodes(folder, scratch, env or environment())
        try:
            yield nodes
        finally:
            nodes.end_all()
