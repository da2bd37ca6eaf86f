"""Fixtures of all tests: one private Ray cluster for the whole session, a store, and the real collections.

No test asks a model hub.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from r2med_ray.settings.pools import ClusterCapacity
    from r2med_ray.storage.artifacts import ArtifactStore

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["RAY_AUTH_MODE"] = (
    "disabled"  # the cluster is on loopback, and the token file of other clusters stays as it is
)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.pop("RAY_ADDRESS", None)
# Some tests interrupt what they run. A shell lets processes in the background ignore the interrupt, so it is set
# again.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test depends on how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

REPOSITORY = Path(__file__).parents[1]
INTEGRATION_ENDS = "R2MED_INTEGRATION_ENDS"
"""Environment variable: the time, in seconds since the epoch, from which on no integration test begins."""

REAL_COLLECTIONS = REPOSITORY.parent / "shared" / "data" / "r2med_layout"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    ends = float(os.environ.get(INTEGRATION_ENDS, "inf"))
    if time.time() >= ends and item.path.is_relative_to(REPOSITORY / "tests" / "integration"):
        pytest.skip("not run: the time for integration tests was up")


@pytest.fixture
def shared_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let texts share passes on a CPU as they do on a GPU, with padding, in the networks that the test loads."""
    from r2med_ray.models.catalog import devices

    monkeypatch.setattr(devices, "ALONE", devices.BatchLimits(most=2048, few=256))


@pytest.fixture(scope="session")
def cluster() -> Iterator["ClusterCapacity"]:
    """A local cluster of two logical CPUs."""
    from r2med_ray.distributed.session import connect

    with connect("local", num_cpus=2) as capacity:
        yield capacity


@pytest.fixture(scope="session")
def address(cluster: "ClusterCapacity") -> str:
    """The address of that cluster for jobs, because joining a cluster is quicker than starting one."""
    import ray

    return ray.get_runtime_context().gcs_address


@pytest.fixture
def store(tmp_path: Path) -> "ArtifactStore":
    """A store for one test, in the folder `store` of its `tmp_path`. The first artefact makes that folder."""
    from r2med_ray.storage.artifacts import ArtifactStore

    return ArtifactStore(str(tmp_path / "store"))


@pytest.fixture(scope="session")
def real_collections() -> Path:
    """The folder of real collections, which we may not ship."""
    if not REAL_COLLECTIONS.is_dir():
        pytest.skip(f"the real collections are not here: {REAL_COLLECTIONS}")
    return REAL_COLLECTIONS
