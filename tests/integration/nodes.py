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

from tests.integration.jobs import RunningJob, environment

RAY = Path(sys.executable).parent / "ray"


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
