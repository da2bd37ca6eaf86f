"""A node that is lost in the middle of a search, and that nobody replaces."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from r2med_ray.evaluation.trec import write_run
from r2med_ray.retrieval.search import PlainRetriever
from tests.integration import gated_search
from tests.integration.gated_search import QUERIES, SHARDS
from tests.integration.jobs import REPOSITORY, RunningJob, running
from tests.integration.nodes import Nodes, nodes_in
from tests.integration.tiny_corpus import index_of, prepare

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """The nodes of one cluster."""
    (tmp_path / "logs").mkdir()
    with nodes_in(tmp_path / "logs") as started:
        yield started


@contextmanager
def searching(address: str, folder: Path, *, actors: int, timeout_s: float) -> Iterator[RunningJob]:
    """Run a driver that searches, until all of its actors are in the middle of it."""
    command = [sys.executable, "-m", gated_search.__name__, address, folder, str(actors), str(timeout_s)]
    with running(command, cwd=REPOSITORY, log=folder / "driver.log") as job:
        job.wait_for("search in every actor", lambda: len(list(folder.glob("searching.*"))) == actors)
        yield job


def test_the_shards_of_a_lost_node_are_dealt_to_the_actors_that_are_left_with_the_same_run_byte_for_byte(
    nodes: Nodes, tmp_path: Path
) -> None:
    address = nodes.start_head()
    nodes.start(f"--address={address}", "--num-cpus=2")
    lost = nodes.start(f"--address={address}", "--num-cpus=2")
    with searching(address, tmp_path, actors=4, timeout_s=300) as job:
        nodes.end(lost)
        (tmp_path / "go").touch()
        assert job.process.wait(timeout=300) == 0, job.log.read_text()

    plain = PlainRetriever("gated", prepare, [index_of(*SHARDS)])
    write_run(tmp_path / "plain", plain.retrieve(QUERIES, k=5))
    assert (tmp_path / "run").read_bytes() == (tmp_path / "plain").read_bytes()
    assert job.log.read_text().count("no node has room for its actor; 2 other actors take over") == 2


def test_a_search_whose_actors_all_lost_their_node_ends_at_the_deadline_and_names_the_shards(
    nodes: Nodes, tmp_path: Path
) -> None:
    address = nodes.start_head()
    lost = nodes.start(f"--address={address}", "--num-cpus=2")
    with searching(address, tmp_path, actors=2, timeout_s=60) as job:
        nodes.end(lost)
        assert job.process.wait(timeout=300) == 1

    log = job.log.read_text()
    error = (
        "search failed on gated, shard 0, 1, 2, 3: no answer for 60 s, the limit `resources.no_progress_timeout_s`"
    )
    assert error in log
    assert "2 of 2 × 1 CPU have no node. The cluster has 1 node(s), 0 CPUs, 0 GPUs" in log
