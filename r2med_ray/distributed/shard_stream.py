"""Shards and queries through Ray Data: read, handed whole to a worker, and counted when they come back.

Each Parquet file is one shard. Each of its pieces becomes one row of the dataset, so a worker sees exactly one piece
at a time, whatever the size of the cluster. That is why the batches of an encoder, and the last bits of a vector,
depend on the corpus alone. Reading runs ahead of the workers. The shards of all tasks go through one stream, so a
model is loaded once per actor and not once per task. A shard that two artefacts are made of is read once. Queries
follow the shards through the same actors, each set of them as one row.

Shards are read by tasks of our own and not by `ray.data.read_parquet`, so that the shard has a name where reading
it fails, or ends the process.
"""

import json
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.data import ActorPoolStrategy, DataContext, TaskPoolStrategy
from ray.data.exceptions import ExecutionTimeoutError

from r2med_ray.blame import note_first_failure
from r2med_ray.distributed.attempts import Attempts
from r2med_ray.distributed.failures import is_of_this_package, stage_error
from r2med_ray.distributed.session import capacity_now
from r2med_ray.distributed.shard_rows import ReadShard, Trying, WorkOnPiece, WorkOnRow
from r2med_ray.distributed.stopping import until_stopped
from r2med_ray.errors import StageError
from r2med_ray.first_stages.preparation import Piece, ShardWork
from r2med_ray.settings.pools import Pool
from r2med_ray.storage.artifacts import ArtifactStore

READ_CPUS = 0.25
"""CPUs a reading task reserves: little, so that reading never waits behind a pool that fills the machine."""


FAILURES = 4
"""So many failures, if they are more than half of what came back, end a pass: an actor whose device is broken would
fail on all that it is given."""


def _positions(work: Sequence[Piece]) -> list[list[int]]:
    """Return the positions of the work on each shard, of which several artefacts may be made, and on queries."""
    positions: dict[str, list[int]] = {}
    for position, item in enumerate(work):
        name = item.shard.path if isinstance(item, ShardWork) else item.key.name
        positions.setdefault(name, []).append(position)
    return list(positions.values())


def stream_work(
    stage: str,
    store: ArtifactStore,
    work: Sequence[Piece],
    build_worker: Callable[[], WorkOnPiece],
    *,
    pool: Pool,
    no_progress_timeout_s: int,
    stop: threading.Event | None = None,
    told: Callable[[Attempts], None] = lambda attempts: None,
) -> Iterator[tuple[Piece, Mapping[str, float]]]:
    """Yield each piece of work and its numbers as it is finished, in order of arrival.

    A piece that fails is tried again once, by actors that are started for it.

    Args:
        stage: name of the arrow, for errors.
        store: where the shards are.
        work: what has to be done, in the order in which it is begun; a shard may be there several times, with several
            keys.
        build_worker: called once in every actor.
        pool: size and reservations of the actor pool; it starts with one actor and grows while there is work.
        no_progress_timeout_s: the stage fails when nothing was finished for this long.
        stop: heeded whenever a piece is finished; no further one is begun.
        told: is given what knows how far workers are, at the beginning and again when pieces are tried again.

    Raises:
        StageError: a worker failed twice, or other pieces came back than went in.
        StoppedError: `stop` was set.
    """
    context = DataContext.get_current().copy()
    context.target_max_block_size = 1  # each row is a block: a piece is never split, and pieces never go together
    context.execution_no_progress_timeout_s = no_progress_timeout_s
    context.enable_progress_bars = False  # progress is told in shards and documents
    context.raise_original_map_exception = True  # a worker's own words, not that some code of ours failed
    left, lost_workers = list(work), False
    while left:
        with DataContext.current(context):
            one = _Pass(stage, left, no_progress_timeout_s, may_lose_workers=not lost_workers)
            trying = Trying(stage, Attempts())
            told(trying.attempts)
            rows = _rows(trying, store, left, build_worker, pool)
            try:
                yield from one.finished(until_stopped(stop or threading.Event(), rows))
            finally:
                rows.close()  # or an error's traceback would keep Ray Data at work
        left, lost_workers = one.left(), lost_workers or one.lost_workers


class _Pass:
    """One pass over pieces of work, with actors of its own. What fails in it for the first time is left for the next.

    Args:
        stage: name of the arrow, for errors.
        work: the pieces.
        timeout_s: after so long without a finished piece Ray Data gives up.
        may_lose_workers: whether the pass may end because actors don't start, or are lost.
    """

    def __init__(self, stage: str, work: Sequence[Piece], timeout_s: int, *, may_lose_workers: bool) -> None:
        self.lost_workers = False
        self._stage = stage
        self._work = work
        self._timeout_s = timeout_s
        self._may_lose_workers = may_lose_workers
        self._returned: set[int] = set()
        self._failed: list[int] = []

    def finished(self, rows: Iterator[dict[str, Any]]) -> Iterator[tuple[Piece, Mapping[str, float]]]:
        """Yield the pieces that are finished, with their numbers.

        Raises:
            StageError: a piece failed at its last attempt, or other pieces came back than went in.
        """
        try:
            for row in rows:
                position, item = row["position"], self._work[row["position"]]
                if position in self._returned:
                    raise StageError(self._stage, item.unit, "it came back twice")
                self._returned.add(position)
                if not row["failure"]:
                    yield item, json.loads(row["numbers"])
                    continue
                failure = StageError(self._stage, item.unit, row["failure"])
                if row["is_final"]:
                    raise failure
                note_first_failure(failure)
                self._failed.append(position)
                if len(self._failed) >= FAILURES and len(self._failed) > len(self._returned) / 2:
                    return
        except ray.exceptions.RayError as error:
            failure = stage_error(self._stage, self._unit(), error)
            if not self._may_lose_workers or is_of_this_package(error):
                raise failure from error
            note_first_failure(failure)
            self.lost_workers = True
            return
        except ExecutionTimeoutError as error:
            limit = f"nothing was finished for {self._timeout_s} s, the limit `resources.no_progress_timeout_s`"
            cause = f"{limit}. The cluster has {capacity_now().describe()}"
            raise StageError(self._stage, self._unit(), cause) from error
        missing = sorted(set(range(len(self._work))) - self._returned)
        if missing:
            cause = f"{len(missing)} of {len(self._work)} pieces of work did not come back"
            raise StageError(self._stage, self._work[missing[0]].unit, cause)

    def left(self) -> list[Piece]:
        """Return the pieces for the next pass: first those that failed. Pieces of a shard that is made whole go."""
        last = [self._work[position].last_attempt() for position in self._failed]
        failed: dict[str, Piece] = {item.key.name: item for item in last}
        waiting = [item for position, item in enumerate(self._work) if position not in self._returned]
        return [*failed.values(), *(item for item in waiting if _shard_of(item) not in failed)]

    def _unit(self) -> str:
        """Return what a failure of the workers may be about."""
        left = [item for position, item in enumerate(self._work) if position not in self._returned]
        shards = sum(isinstance(item, ShardWork) for item in left)
        if len(left) == 1:
            return left[0].unit
        if shards < len(left):
            return f"one of {len(left)} shards and sets of queries"
        return f"one of {len({_shard_of(item) for item in left})} shards"


def _shard_of(item: Piece) -> str:
    """Return the name of the artefact that an item is a piece of; its own if it is none."""
    return (item.whole.key if isinstance(item, ShardWork) and item.whole else item.key).name


def _rows(
    trying: Trying,
    store: ArtifactStore,
    work: Sequence[Piece],
    build_worker: Callable[[], WorkOnPiece],
    pool: Pool,
) -> Generator[dict[str, Any], None, None]:
    """Yield what the workers return. The work begins when the first row is asked for, and ends with `close`."""
    shards = [{"positions": positions} for positions in _positions(work)]
    read = ray.data.from_items(shards, override_num_blocks=len(shards)).map_batches(
        ReadShard(store, work, trying).__call__,
        batch_size=None,
        batch_format="pyarrow",
        compute=TaskPoolStrategy(),
        num_cpus=READ_CPUS,
    )
    finished = read.map_batches(
        WorkOnRow,
        fn_constructor_args=(work, build_worker, trying),
        batch_size=1,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(min_size=1, max_size=min(pool.actors, len(work)), max_tasks_in_flight_per_actor=2),
        num_cpus=pool.cpus,
        num_gpus=pool.gpus or None,
    )
    yield from finished.iter_rows()
