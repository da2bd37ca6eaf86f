"""Searches over shard actors on a cluster, as a driver of its own: `gated_search.py ADDRESS FOLDER ACTORS TIMEOUT_S`.

Each actor has a CPU, and the search begins when the cluster has one for each.
Each actor leaves a file `searching.PROCESS` in the folder when it begins its search, and answers when there is a file
`go`. The run is written to the file `run`.
"""

import os
import sys
from functools import partial
from pathlib import Path

from r2med_ray.corpora import CorpusShard
from r2med_ray.distributed import searching
from r2med_ray.distributed.session import capacity_now, connect
from r2med_ray.evaluation.trec import write_run
from r2med_ray.protocols import Index
from r2med_ray.ranking import Ranking
from r2med_ray.settings.pools import Pool
from r2med_ray.types import Query
from tests.fakes import wait_until
from tests.integration.tiny_corpus import index_of, prepare, shards

SHARDS = shards(4)
QUERIES = [Query(query_id="q1", text="cat"), Query(query_id="q2", text="dog cat"), Query(query_id="q3", text="mat")]


class Gated:
    """An index that leaves a file when it is searched, and answers when there is a file `go`."""

    def __init__(self, folder: Path, index: Index[object]) -> None:
        self._folder = folder
        self._index = index

    def search(self, queries: object, k: int) -> list[Ranking]:
        (self._folder / f"searching.{os.getpid()}").touch()
        wait_until((self._folder / "go").exists)
        return self._index.search(queries, k)


def load(folder: Path, shard: CorpusShard) -> Index[object]:
    return Gated(folder, index_of(shard))


def main(address: str, folder: Path, actors: int, timeout_s: float) -> None:
    searching.REPLACED_WITHIN_S = 2.0
    with connect(address):
        wait_until(lambda: capacity_now().cpus == actors, deadline_s=200)
        retriever = searching.ShardedRetriever(
            "gated",
            prepare,
            partial(load, folder),
            SHARDS,
            Pool(actors=actors, cpus=1),
            drop_identical_ids=False,
            no_progress_timeout_s=timeout_s,
        )
        write_run(folder / "run", retriever.retrieve(QUERIES, k=5))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
