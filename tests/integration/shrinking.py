"""Pools that shrink on a cluster of several nodes, as a driver of its own: `shrinking.py ADDRESS FOLDER CPUS`.

It begins when the cluster has so many CPUs. It ends with an error if what has nothing left to do keeps its CPUs.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import ray
import ray._private.state

from r2med_ray.distributed.searching import ShardedRetriever
from r2med_ray.distributed.session import capacity_now, connect
from r2med_ray.distributed.shard_stream import stream_work
from r2med_ray.settings.pools import Pool
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Run
from tests.fakes import wait_until
from tests.integration.gated_search import QUERIES, SHARDS, load
from tests.integration.test_distributed_search import works
from tests.integration.tiny_corpus import index_of, prepare
from tests.integration.workers import WaitsAtTheLast

GIVEN_BACK_WITHIN_S = 150
"""An actor that is still starting when it has nothing to do any more gives its CPU back when it has started."""


def free() -> dict[str, float]:
    """The id of each node → its CPUs that nothing reserves."""
    per_node = ray._private.state.available_resources_per_node()
    return {node: there.get("CPU", 0.0) for node, there in per_node.items()}


def encode(folder: Path, cpus: int) -> None:
    """Work on shards with an actor for each CPU but one. At the last shard, one actor is left."""
    work = works(ArtifactStore(str(folder / "store")), 12)
    build = partial(WaitsAtTheLast, folder, len(work) - 1)
    stream = stream_work("encode", ArtifactStore(str(folder / "store")), work, build,
                         pool=Pool(actors=cpus - 1, cpus=1), no_progress_timeout_s=300)  # fmt: skip
    with ThreadPoolExecutor() as threads:
        finished = threads.submit(list, stream)
        wait_until((folder / "last").exists, deadline_s=200)
        wait_until(lambda: sum(free().values()) == cpus - 1, GIVEN_BACK_WITHIN_S)
        # The actor that is left is on one node, and a node without any can go.
        assert sorted(free().values())[-1] == cpus / 2
        (folder / "go").touch()
        assert len(finished.result(timeout=200)) == len(work)
    wait_until(lambda: sum(free().values()) == cpus)


def search(folder: Path, cpus: int) -> None:
    """Search one index while another is closed."""
    pool = Pool(actors=cpus // 2, cpus=1)
    gated = ShardedRetriever("gated", prepare, partial(load, folder), SHARDS, pool, drop_identical_ids=False)
    other = ShardedRetriever("other", prepare, index_of, SHARDS, pool, drop_identical_ids=False)
    assert sum(free().values()) == 0
    with ThreadPoolExecutor() as threads:
        found = threads.submit(gated.retrieve, QUERIES, k=5)
        wait_until(lambda: len(list(folder.glob("searching.*"))) == pool.actors, deadline_s=200)
        run: Run = other.retrieve(QUERIES, k=5)
        other.close()
        wait_until(lambda: sum(free().values()) == cpus / 2, GIVEN_BACK_WITHIN_S)
        assert not found.done()
        (folder / "go").touch()
        assert found.result(timeout=200).rankings == run.rankings


def main(address: str, folder: Path, cpus: int) -> None:
    with connect(address):
        wait_until(lambda: capacity_now().cpus == cpus, deadline_s=200)
        for stage in (encode, search):
            (folder / stage.__name__).mkdir()
            stage(folder / stage.__name__, cpus)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
