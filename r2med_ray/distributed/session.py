"""The connection to a cluster: joins the one it is told to, or starts its own and ends only that."""

import contextlib
import logging
import os
import re
import secrets
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import ray
from ray._private.resource_and_label_spec import ResourceAndLabelSpec
from ray._private.services import canonicalize_bootstrap_address
from ray.exceptions import AuthenticationError

from r2med_ray.distributed.ceilings import can_become, named_by, node_of
from r2med_ray.distributed.nodes import alive_nodes
from r2med_ray.errors import CapacityError, ConfigError
from r2med_ray.settings.pools import ClusterCapacity
from r2med_ray.settings.resources import ClusterConfig

logger = logging.getLogger(__name__)

LOUD = {
    **dict.fromkeys(("ray.data", "ray.serve", "ray._private.worker"), logging.WARNING),
    "ray.data._internal.progress": logging.ERROR,  # warns that there are no progress bars; `progress` reports instead
    "ray._private.authentication": logging.ERROR,  # warns of the token that `connect` made
}
"""Ray's loggers → the lowest level that is shown to who wants all. Importing `ray.data` and `ray.serve` sets levels
of their own."""

VERBOSE = "R2MED_VERBOSE"
"""The environment variable that shows Ray's own lines: its retries and tracebacks, and all that workers write."""

OF_CORE = "RAY_BACKEND_LOG_LEVEL"
"""The environment variable with the lowest level of the lines of Ray's core, which no logger of Python sees."""

LINE_OF_CORE = re.compile(rb"\[\d{4}-\d\d-\d\d [\d:,]+ [A-Z] \d+ \d+\] ")
STDERR = 2

LISTENS_WITHIN_S = 10.0
"""How long a cluster that is to be joined may take to accept a connection."""


@contextlib.contextmanager
def connect(
    address: str = "auto",
    *,
    num_cpus: int | None = None,
    only_to_plan: bool = False,
    cluster: ClusterConfig | None = None,
) -> Iterator[ClusterCapacity]:
    """Connect to a cluster for the length of a `with` block.

    Args:
        address: `local` starts a cluster on this machine; an address joins that cluster; `auto` joins the one
            that RAY_ADDRESS names, as it does inside `ray job submit`, and starts a local one where it names none.
            A cluster that merely happens to run on this machine is never joined.
        num_cpus: logical CPUs of a cluster that is started here.
        only_to_plan: whether a cluster that would start here is only imagined. Its capacity is what Ray would count.
        cluster: what the benchmark file says that the cluster can become.

    Yields:
        What the cluster can become, see `ceilings`. One that starts here grows only if the benchmark file says so.

    A connection that the process already has is used and left as it is. Ray's own lines are out of sight, unless
    `VERBOSE` is set: what went wrong is told by this package's errors.

    Raises:
        CapacityError: the cluster that was to start here did not.
        ConfigError: there is no cluster at the address, or it can't be joined, or see `can_become`.
    """
    is_verbose = bool(os.environ.get(VERBOSE))
    for name, level in LOUD.items():
        logging.getLogger(name).setLevel(level if is_verbose else logging.CRITICAL)
    already_connected = ray.is_initialized()
    target = address if address != "auto" else os.environ.get("RAY_ADDRESS") or "local"
    started_here = not already_connected and target == "local"
    if started_here and only_to_plan:
        yield named_by(cluster) if cluster else _capacity_of([_this_machine()])
        return
    if started_here:
        _start(num_cpus, is_verbose)
    elif not already_connected:
        _join(target, is_verbose)
    there, origin = capacity_now(), "started for this job" if started_here else "joined"
    logger.info("Ray %s, %s: %s", ray.__version__, origin, there.describe())
    try:
        capacity = (named_by(cluster) if cluster else there) if target == "local" else can_become(cluster, there)
        logger.info("sized for %s, by %s", capacity.describe(), capacity.source)
        yield capacity
    finally:
        if not already_connected:
            ray.shutdown()


def _this_machine() -> Mapping[str, float]:
    """Return the resources that Ray would count on this machine."""
    return ResourceAndLabelSpec().resolve(is_head=True).to_resource_dict()  # type: ignore[no-untyped-call, no-any-return]


def _join(target: str, is_verbose: bool) -> None:
    with said_plainly(target), _core_kept_quiet(is_verbose):
        _require_listener(target)
        ray.init(address=target, log_to_driver=is_verbose)


def _start(num_cpus: int | None, is_verbose: bool) -> None:
    """Start a cluster with a token of its own: Ray would else use the one that all clusters of this user share."""
    if "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with said_plainly(None), _core_kept_quiet(is_verbose):
        ray.init(address="local", num_cpus=num_cpus, include_dashboard=False, log_to_driver=is_verbose)


@contextlib.contextmanager
def _core_kept_quiet(is_verbose: bool) -> Iterator[None]:
    """Start Ray in the block with a core that writes nothing to the terminal, unless it is to show all.

    Ray's core answers to its level with a line of its own. So the lines of the block are kept back, and written at
    its end without those of the core.
    """
    if is_verbose or OF_CORE in os.environ:
        yield
        return
    os.environ[OF_CORE] = "fatal"
    with tempfile.TemporaryFile() as kept:
        terminal = os.dup(STDERR)
        os.dup2(kept.fileno(), STDERR)
        try:
            yield
        finally:
            del os.environ[OF_CORE]  # the core has read it, and programs that this process starts have their own
            os.dup2(terminal, STDERR)
            os.close(terminal)
            kept.seek(0)
            for line in kept:
                if not LINE_OF_CORE.match(line):
                    os.write(STDERR, line)


@contextlib.contextmanager
def said_plainly(address: str | None) -> Iterator[None]:
    """Say in one line why `ray.init` gave no cluster.

    Ray 2.60 has a class of its own for a wrong token alone. A head that doesn't start is a RuntimeError, a node that
    isn't registered within 30 seconds a bare Exception (`_private/node.py`), a cluster that isn't there a
    ConnectionError (`_private/worker.py`), and an address that is none a ValueError (`_private/services.py`).

    Args:
        address: the address of the cluster to join. With None, a cluster starts here.

    Raises:
        CapacityError: it was to start here.
        ConfigError: it was to be joined.
    """
    try:
        yield
    except (AuthenticationError, ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error) from error
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise _no_cluster(address, error) from error


def _require_listener(address: str) -> None:
    """Find out in seconds that nobody listens, for which `ray.init` takes a quarter of an hour.

    Args:
        address: HOST:PORT, ray://HOST:PORT, or `auto` for what runs on this machine.

    Raises:
        ConnectionError: nobody listens there.
        ValueError: it is no address.
    """
    scheme, _, place = address.rpartition("://")
    where = urlsplit(f"//{place if scheme else canonicalize_bootstrap_address(address)}")
    if where.port is None:
        raise ValueError(f"Invalid address format: {address}")
    try:
        socket.create_connection((where.hostname, where.port), timeout=LISTENS_WITHIN_S).close()
    except OSError as error:
        raise ConnectionError(f"nobody listens at {where.netloc} ({error})") from error


def _no_cluster(address: str | None, error: Exception) -> CapacityError | ConfigError:
    before_logs = re.split(r"\n|\s+Last ", str(error).strip())[0]  # "... Last 10 lines of error files:\n..."
    said = before_logs.rstrip(".") or type(error).__name__
    if address is None:
        return CapacityError(
            f"Ray did not start on this machine: {said}. Run the same command again when the machine is less busy; "
            "Ray's own words are in /tmp/ray/session_latest/logs"
        )
    return ConfigError(
        f"address {address!r}: no Ray cluster could be joined there: {said}. Expected HOST:PORT of a running one "
        "(`--address`, or RAY_ADDRESS where that is left out), or `--address local` to start one here"
    )


def capacity_now() -> ClusterCapacity:
    """Return what the cluster that this process is connected to has now."""
    return _capacity_of([node["Resources"] for node in alive_nodes()])


def _capacity_of(nodes: Sequence[Mapping[str, float]]) -> ClusterCapacity:
    return ClusterCapacity(nodes=tuple(map(node_of, nodes)))
