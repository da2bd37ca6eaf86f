"""Who may knock: the sockets of a cluster that a job starts, looked at while the cluster runs."""

import json
import os
import subprocess
import sys
from ipaddress import ip_address
from typing import Any

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.serve]

NOT_LOOPBACK = {
    "python": "the driver of the job: workers report to it",
    "gcs_server": "Ray's head: nodes and drivers register there",
    "raylet": "Ray's scheduler and object manager: nodes exchange tasks and objects there",
    "ray::": "Ray's workers and agents: they call each other, also across machines",
}
"""Beginning of a process' name → why it listens on the machine's address.

Ray 2.60 puts the machine's own address in place of 127.0.0.1 (`_private/services.py`, `resolve_ip_for_localhost`),
and its servers then listen on all addresses. Whoever calls one needs the token that `session.connect` makes."""

CLUSTER = """
import json, sys
import psutil, ray
from r2med_ray.distributed.session import connect
from r2med_ray.serving.serve_session import start_serve

with connect("local", num_cpus=1):
    proxy = start_serve(http=True)
    ray.get(ray.remote(lambda: 1).remote())
    me = psutil.Process()
    sockets = [
        (process.name(), socket.laddr.ip, socket.laddr.port)
        for process in [me, *me.children(recursive=True)]
        for socket in process.net_connections(kind="inet")
        if socket.status == psutil.CONN_LISTEN
    ]
    import os, subprocess
    stranger = subprocess.run(
        [sys.executable, "-c", "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False)",
         ray.get_runtime_context().gcs_address],
        capture_output=True, text=True, env=os.environ | {"RAY_AUTH_TOKEN": "0" * 64}, timeout=200,
    )
    found = {"sockets": sockets, "proxy": proxy.port, "token": bool(os.environ.get("RAY_AUTH_TOKEN")),
             "stranger": stranger.returncode, "said": stranger.stderr[-2000:]}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def cluster_of_a_job() -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    ended = subprocess.run(
        [sys.executable, "-c", CLUSTER], capture_output=True, text=True, env=environment, check=False, timeout=500
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_the_proxy_of_serve_listens_on_loopback_only(cluster_of_a_job: dict[str, Any]) -> None:
    [address] = [ip for _, ip, port in cluster_of_a_job["sockets"] if port == cluster_of_a_job["proxy"]]

    assert ip_address(address).is_loopback


def test_no_dashboard_listens(cluster_of_a_job: dict[str, Any]) -> None:
    names = [name for name, _, _ in cluster_of_a_job["sockets"]]

    assert not [name for name in names if "dashboard" in name.lower() and name != "ray::DashboardAgent"]
    assert 8265 not in [port for _, _, port in cluster_of_a_job["sockets"]]


def test_every_other_socket_is_one_of_ray_itself(cluster_of_a_job: dict[str, Any]) -> None:
    others = {name for name, ip, _ in cluster_of_a_job["sockets"] if not ip_address(ip).is_loopback}

    assert {"gcs_server", "raylet"} <= others
    assert not [name for name in others if not name.startswith(tuple(NOT_LOOPBACK))]


def test_a_stranger_on_the_network_is_refused_without_the_token(cluster_of_a_job: dict[str, Any]) -> None:
    assert cluster_of_a_job["token"]
    assert cluster_of_a_job["stranger"] != 0
    assert "token" in cluster_of_a_job["said"].lower()
