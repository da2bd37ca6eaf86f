"""A missing cluster is explained in one line. Other tests test clusters that do start."""

import logging
import socket
import time
from collections.abc import Iterator

import pytest
import ray
from ray.exceptions import AuthenticationError

from r2med_ray.distributed.session import VERBOSE, connect, said_plainly
from r2med_ray.errors import CapacityError, ConfigError

TIMED_OUT = (
    "The current node timed out during startup. This could happen because some of the raylet failed to startup."
)


@pytest.fixture(autouse=True)
def unconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test find no cluster, as in a new process. The integration tests keep theirs until the session ends."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Exception(TIMED_OUT), id="the-node-does-not-register"),
        pytest.param(RuntimeError(f"{TIMED_OUT}  Last 2 lines of error files:\nE 1\nE 2\n."), id="the-head-ends"),
    ],
)
def test_a_cluster_that_does_not_start_in_time_is_said_in_one_line_with_what_to_do(error: Exception) -> None:
    with pytest.raises(CapacityError) as raised, said_plainly(None):
        raise error

    message = str(raised.value)
    assert message.startswith(f"Ray did not start on this machine: {TIMED_OUT} Run the same command again")
    assert "\n" not in message


@pytest.mark.parametrize(
    "error", [ConnectionError("Failed to connect to Ray cluster at h:1"), AuthenticationError("no token was found")]
)
def test_a_cluster_that_can_not_be_joined_is_named(error: Exception) -> None:
    what = r"address 'h:1': no Ray cluster could be joined there: .*--address local"
    with pytest.raises(ConfigError, match=what), said_plainly("h:1"):
        raise error


@pytest.mark.parametrize("address", ["nonsense", "ray://nonsense"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    what = f"address '{address}': .*Invalid address format: {address}.*HOST:PORT"
    with pytest.raises(ConfigError, match=what), connect(address):
        pass


@pytest.fixture
def silent() -> Iterator[str]:
    """HOST:PORT of a port that is taken, but on which no process listens."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize("by_environment", [False, True])
def test_a_cluster_that_does_not_listen_is_found_out_at_once(
    silent: str, scheme: str, by_environment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"{scheme}{silent}" if by_environment else "ignored:1")
    began = time.monotonic()
    port = silent.split(":")[1]
    what = (
        f"address '{scheme}{silent}': no Ray cluster could be joined there: nobody listens at .*:{port} .*HOST:PORT"
    )
    with pytest.raises(ConfigError, match=what), connect("auto" if by_environment else f"{scheme}{silent}"):
        pass

    assert time.monotonic() - began < 5  # `ray.init` tries for 15 minutes


@pytest.mark.parametrize(("verbose", "libraries", "setup"), [("", "CRITICAL", "CRITICAL"), ("1", "WARNING", "ERROR")])
def test_rays_libraries_are_quiet_whenever_they_were_imported_and_louder_for_whoever_wants_it(
    verbose: str, libraries: str, setup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VERBOSE, verbose)
    for name in ("ray.data", "ray.serve"):
        logging.getLogger(name).setLevel(logging.INFO)  # importing them does the same

    with pytest.raises(ConfigError), connect("nonsense"):
        pass

    expected = {
        "ray.data.dataset": libraries,
        "ray.serve.api": libraries,
        "ray._private.authentication.authentication_token_setup": setup,
    }
    levels = {name: logging.getLevelName(logging.getLogger(name).getEffectiveLevel()) for name in expected}
    assert levels == expected


def test_a_mistake_in_a_program_is_not_taken_for_a_cluster_that_is_missing() -> None:
    with pytest.raises(KeyError), said_plainly(None):
        raise KeyError("x")
