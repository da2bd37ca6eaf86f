"""Starts Ray Serve for a job, on loopback unless told otherwise, and ends applications of killed jobs.

Applications are deployed and deleted by name, and other applications of the same cluster are left alone. The name of
an application says which job it belongs to. So two jobs of one benchmark don't end each other's applications, and a
job can end the applications of a job that was killed.
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import ray
import ray._private.state
from ray import serve
from ray.exceptions import ActorDiedError
from ray.serve.context import _get_global_client
from ray.serve.schema import ProxyStatus

from r2med_ray.errors import ConfigError, StageError
from r2med_ray.waiting import Wait

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
PREFIX = "r2med"

IDLE_REPLICA_ENDS_S = 0.1
"""Seconds until a replica that is to end looks whether a request is left. Serve's own number is 2, before the first
look, too."""

LOOKS_EVERY_S = 0.2
"""Seconds between two looks at an application that starts or ends. Serve's own number is 1."""

ENDS_WITHIN_S = 60.0
"""Seconds after which an application that still ends is left to Serve, which is Serve's own limit, too."""

STARTS_WITHIN_S = 600.0
"""Seconds that Serve's proxy may take to answer."""

_STARTING = threading.Lock()
"""Held while Serve is started: two threads that start it at once would start two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAddress:
    """The address of Serve's proxy."""

    host: str
    port: int

    def url(self, route_prefix: str) -> str:
        """Return the URL of the application with a route."""
        host = LOOPBACK if self.host == "0.0.0.0" else self.host
        return f"http://{host}:{self.port}{route_prefix}"


def application_name(benchmark: str, model: str, digest: str) -> str:
    """Return the name that this job gives to the application of a model.

    Args:
        benchmark: name of the benchmark.
        model: name of the model.
        digest: the fingerprint of the model's settings.
    """
    return f"{PREFIX}-{ray.get_runtime_context().get_job_id()}-{benchmark}-{model}-{digest[:8]}"


def start_serve(*, http: bool, host: str = LOOPBACK, port: int | None = None) -> HttpAddress | None:
    """Start Serve on the connected cluster, or use the Serve that already runs there.

    Args:
        http: whether an application of the job is asked over HTTP. If not, no port is opened.
        host: the address that the proxies bind to.
        port: the port of the proxies. The default is a free port on a cluster of one machine, and Serve's default
            (8000) on a cluster of several machines.

    Returns:
        The address of the proxies; None without HTTP.

    Raises:
        ConfigError: the job needs an HTTP proxy, but Serve runs applications there without one.
        StageError: no proxy answers in time.
    """
    with _STARTING:
        return _start(http, host, port)


@dataclass(kw_only=True)
class JobServe:
    """Serve as one job needs it."""

    host: str
    port: int | None
    is_needed: bool = False
    """Whether something will be served."""

    needs_http: bool = False
    """Whether an engine will have to run: Serve's proxy then has to be there from the start."""

    def start(self) -> HttpAddress | None:
        """Start it, see `start_serve`."""
        return start_serve(http=self.needs_http, host=self.host, port=self.port)

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Start it, if it is needed, while the block does other work. At the end of the block it has started."""
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(self.start) if self.is_needed else None
            yield
            if started:
                started.result()


def _start(http: bool, host: str, port: int | None) -> HttpAddress | None:
    wanted = {"host": host, "port": port or _default_port()}
    begin = partial(
        serve.start,
        proxy_location="EveryNode" if http else "Disabled",
        http_options=wanted if http else None,
        logging_config={"log_level": "WARNING"},
    )
    start = partial(_start_or_join, begin)
    start()
    _end_orphans()
    if not http:
        return None
    running = serve.status()
    if not running.proxies and not running.applications:  # a job that needed no proxy left this Serve
        serve.shutdown()  # type: ignore[no-untyped-call]
        start()
        running = serve.status()
    if not running.proxies:
        raise ConfigError(
            "a served language model needs Ray Serve's HTTP proxy, and Ray Serve has none on this cluster, for "
            f"{', '.join(running.applications)}. Wait until these applications have ended, end Ray Serve "
            "(`serve shutdown`), or give the language model a `base_url`"
        )
    _wait_for_proxy()
    client = _get_global_client()
    assert client is not None
    options = client.http_config  # a Serve that already ran keeps its own options
    return HttpAddress(host=options.host, port=options.port)


def _start_or_join(start: Callable[[], None]) -> None:
    """Start Serve, and once more if its proxy was too slow: Serve runs then, and starts another proxy by itself."""
    try:
        start()
    except (ActorDiedError, TimeoutError):
        logger.warning("Ray Serve gave up a proxy that was slow to start on a busy machine, and starts another one")
        start()


def _wait_for_proxy() -> None:
    """Wait until the proxy of this node answers, or any proxy if this node has none.

    Raises:
        StageError: none answers in time.
    """
    wait, here = Wait(STARTS_WITHIN_S), ray.get_runtime_context().get_node_id()
    while True:
        states = serve.status().proxies
        if ProxyStatus.HEALTHY in ([states[here]] if here in states else states.values()):
            return
        if not wait.goes_on("Ray Serve's HTTP proxy"):
            said = ", ".join(f"{node}: {state.value}" for node, state in states.items())
            raise StageError("serve", "Ray Serve's HTTP proxy", f"none answers after {STARTS_WITHIN_S:g} s ({said})")
        time.sleep(LOOKS_EVERY_S)


def end_application(name: str) -> None:
    """End an application. A request that hangs keeps its replica for a while, and then Serve ends it anyway."""
    serve.delete(name, _blocking=False)
    wait = Wait(ENDS_WITHIN_S)
    while name in serve.status().applications:
        if not wait.goes_on(f"the end of {name}"):
            logger.warning("%s has not ended yet, and may reserve what it has for some minutes more", name)
            return
        time.sleep(LOOKS_EVERY_S)


def require_free_port(host: str, port: int) -> None:
    """Check that something can be served at a port of this machine.

    Args:
        host: the address that is bound.
        port: the port; 0 stands for any free one.

    Raises:
        ConfigError: it is in use, or there is no such address here.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            problem = f"{host}:{port} can't be served at: {error.strerror}"
            raise ConfigError(f"{problem}. Name another port with `--port`, 0 for a free one") from error


def _end_orphans() -> None:
    """End this package's applications whose job is dead. They hold CPUs and GPUs, and nobody else ends them."""
    dead = {job["JobID"] for job in ray._private.state.jobs() if job["IsDead"]}  # type: ignore[no-untyped-call]
    for name in serve.status().applications:
        if name.startswith(f"{PREFIX}-") and name.split("-")[1] in dead:
            logger.warning("ending %s, which a killed job left behind", name)
            end_application(name)


def _default_port() -> int:
    """Return a port that is free on this machine.

    On a cluster of several nodes it is Serve's own port, which must be free on each node.
    """
    alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    if len(alive) > 1:
        return 8000
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port
