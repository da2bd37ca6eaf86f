"""Starts nodes of a Ray cluster by hand, as processes of their own."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.jobs import RunningJob, environment
from tests.integration.test_job_submission import RAY, free_ports


class Nodes:
    """The nodes of one cluster on this machine.

    Args:
        logs: gets a log per node.
        scratch: a folder with a short path, for sockets and for what Ray writes.
    """

    def __init__(self, logs: Path, scratch: str) -> None:
        self._folder = logs
        self._scratch = scratch
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
            node = subprocess.Popen(command, env=environment(), start_new_session=True, stdout=stream, stderr=stream)
        self._running.append(node)
        # Two nodes that start at once may give their sockets the same names, so nothing else starts until then.
        RunningJob(node, log).wait_for("running node", lambda: "Ray runtime started" in log.read_text())
        return node

    def start_head(self, *arguments: str) -> str:
        """Start the first node, without a CPU. Return the address of the cluster."""
        port, client = free_ports(2)
        self.start(
            "--head", "--num-cpus=0", f"--port={port}", "--include-dashboard=false",
            f"--ray-client-server-port={client}", f"--temp-dir={self._scratch}", *arguments,
        )  # fmt: skip
        return f"127.0.0.1:{port}"

    def end(self, node: "subprocess.Popen[bytes]") -> None:
        """End a node as a power cut would: all its processes at once."""
        os.killpg(node.pid, signal.SIGKILL)
        node.wait(timeout=60)
        self._running.remove(node)

    def end_all(self) -> None:
        for node in list(self._running):
            self.end(node)


@contextmanager
def nodes_in(folder: Path) -> Iterator[Nodes]:
    """Nodes that end with the block."""
    with tempfile.TemporaryDirectory(prefix="r2med-", dir="/tmp", ignore_cleanup_errors=True) as scratch:
        nodes = Nodes(folder, scratch)
        try:
            yield nodes
        finally:
            nodes.end_all()
