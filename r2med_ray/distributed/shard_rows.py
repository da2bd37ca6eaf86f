"""What is done with one row of the dataset of shards: the shard is read, and then worked on.

What goes wrong comes back in the row: raised, it would end the work of all other actors, and Ray would put its own
words around it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import ray

from r2med_ray.blame import note_first_failure
from r2med_ray.corpus.shards import SCHEMA, read_table
from r2med_ray.distributed.attempts import ENDED, Attempts
from r2med_ray.errors import DataError, StageError
from r2med_ray.first_stages.making import failing_as, is_final
from r2med_ray.first_stages.preparation import ShardWork
from r2med_ray.storage.artifacts import ArtifactStore

ATTEMPTS = 2
"""So many processes may end over one shard, or while one worker is built."""

READ_ATTEMPTS = 4
"""So many processes may end while they read one shard. Where a node's memory runs out, Ray ends such tasks first."""

WorkOnShard: TypeAlias = Callable[[ShardWork, pa.Table], Mapping[str, float]]
"""Stores what is made of one shard, a table with columns row, doc_id, title, text; returns numbers about it."""


class Outcome(NamedTuple):
    """What became of a shard."""

    numbers: str = "{}"
    """JSON."""

    failure: str = ""
    is_final: bool = False
    """Whether it failed for good."""


class Trying:
    """Has a shard tried in this process, unless it ended other processes before: Ray Data starts those again without
    end."""

    def __init__(self, stage: str, attempts: Attempts) -> None:
        self.attempts = attempts
        self._stage = stage

    def at(
        self, item: ShardWork, what: str, make: Callable[[ShardWork], Mapping[str, float]], most: int = ATTEMPTS
    ) -> Outcome:
        """Return what became of a shard.

        Args:
            item: the shard.
            what: is done with it, in words.
            make: does it, and returns numbers about it.
            most: so many processes may end over it.
        """
        with self.attempts.at(f"{what} {item.key.name}") as ended:
            if ended:
                cause = f"the process {what} ended, {ENDED}"
                if ended + item.is_last_attempt >= most:
                    return Outcome(failure=cause, is_final=True)
                note_first_failure(StageError(self._stage, item.unit, cause))
                item = replace(item, is_last_attempt=True)
            try:
                with failing_as(self._stage, item.unit):
                    return Outcome(json.dumps(dict(make(item))))
            except StageError as error:
                return Outcome(failure=error.cause, is_final=item.is_last_attempt or is_final(error))


class ReadShard:
    """Reads one whole shard into one row; Arrow's nested lists keep the columns as they are."""

    def __init__(self, store: ArtifactStore, work: Sequence[ShardWork], trying: Trying) -> None:
        self._store = store
        self._work = work
        self._trying = trying

    def __call__(self, batch: pa.Table) -> pa.Table:
        positions = batch.column("positions")[0].as_py()
        table = SCHEMA.empty_table()

        def read(item: ShardWork) -> Mapping[str, float]:
            nonlocal table
            table = read_table(self._store, item.shard)
            return {}

        outcome = self._trying.at(self._work[positions[0]], "that read the shard", read, READ_ATTEMPTS)
        columns = {name: pa.array([value]) for name, value in outcome._asdict().items()}
        columns["positions"] = pa.array([positions], pa.list_(pa.int64()))
        for name in SCHEMA.names:
            values = table.column(name).combine_chunks()
            columns[name] = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
        return pa.table(columns)


class WorkOnRow:
    """Unpacks a row into the shard that it holds and gives it to the worker, which is built once per actor."""

    def __init__(self, work: Sequence[ShardWork], build_worker: Callable[[], WorkOnShard], trying: Trying) -> None:
        self._work = work
        self._trying = trying
        with trying.attempts.at(f"building {ray.get_runtime_context().get_actor_id()}") as ended:
            if ended >= ATTEMPTS:
                raise DataError(f"the process of a worker ended while it was built, {ENDED}")
            self._worker = build_worker()

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        read = Outcome(*(batch.column(name)[0].as_py() for name in Outcome._fields))
        table = pa.table({name: batch.column(name).combine_chunks().flatten() for name in SCHEMA.names})
        ids = table.column("doc_id")
        for position in batch.column("positions")[0].as_py():
            outcome = read
            if not read.failure:
                what = f"that worked on the documents {ids[0].as_py()!r} to {ids[-1].as_py()!r}"
                outcome = self._trying.at(self._work[position], what, lambda item: self._worker(item, table))
            yield pa.Table.from_pylist([{"position": position, **outcome._asdict()}])
