"""Shards through Ray Data: read, handed whole to a worker, and counted when they come back.

Each Parquet file is one shard and becomes one row of the dataset, so that a worker sees exactly one shard at a time
whatever the size of the cluster: the batches of an encoder, and with them the last bit of a vector, depend on the
corpus alone. Reading runs ahead of the workers. The shards of all tasks go through one stream, so that a model is
loaded once per actor and not once per task.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, DataContext, TaskPoolStrategy

from r2med_ray.capacity import Pool
from r2med_ray.distributed.failures import stage_error
from r2med_ray.distributed.side_by_side import until_stopped
from r2med_ray.errors import R2MedError, StageError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import CorpusShard

READ_CPUS = 0.25
"""CPUs a reading task reserves: little, so that reading never waits behind a pool that fills the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardWork:
    """One shard of one task."""

    task: str
    shard: CorpusShard
    skip_rows: tuple[int, ...] = ()
    """Rows of the shard that are duplicates."""

    @property
    def unit(self) -> str:
        return f"{self.task}, shard {self.shard.index}"

    @property
    def num_documents(self) -> int:
        return self.shard.num_rows - len(self.skip_rows)


class ShardWorker(Protocol):
    """Works on one shard: a table with columns row, doc_id, title, text."""

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        """Store what was made of it and return numbers about it."""
        ...


class _OneShardPerRow:
    """Packs a block, which is one whole file, into one row; Arrow's nested lists keep the columns as they are."""

    def __init__(self, work: Sequence[ShardWork]) -> None:
        self._position = {item.shard.path: position for position, item in enumerate(work)}
        self._work = work

    def __call__(self, block: pa.Table) -> pa.Table:
        path = block.column("path")[0].as_py()
        item = self._work[self._position[path]]
        if item.shard.num_rows != block.num_rows:
            cause = f"{block.num_rows} rows arrived, a whole shard has {item.shard.num_rows}"
            raise StageError("read", item.unit, cause)
        columns = {"position": pa.array([self._position[path]], pa.int64())}
        for name in ("row", "doc_id", "title", "text"):
            values = block.column(name).combine_chunks()
            columns[name] = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
        return pa.table(columns)


class _WorkOnRow:
    """Unpacks a row into the shard that it holds and gives it to the worker, which is built once per actor."""

    def __init__(self, stage: str, work: Sequence[ShardWork], build_worker: Callable[[], ShardWorker]) -> None:
        self._stage = stage
        self._work = work
        self._worker = build_worker()

    def __call__(self, batch: pa.Table) -> pa.Table:
        position = batch.column("position")[0].as_py()
        names = [name for name in batch.column_names if name != "position"]
        table = pa.table({name: batch.column(name).combine_chunks().flatten() for name in names})
        try:
            numbers = self._worker(self._work[position], table)
        except R2MedError as error:
            raise StageError(self._stage, self._work[position].unit, str(error)) from error
        return pa.table({"position": [position], **{name: [float(value)] for name, value in numbers.items()}})


def stream_shards(
    stage: str,
    store: ArtifactStore,
    work: Sequence[ShardWork],
    build_worker: Callable[[], ShardWorker],
    *,
    pool: Pool,
    no_progress_timeout_s: int,
    stop: threading.Event | None = None,
) -> Iterator[tuple[ShardWork, Mapping[str, float]]]:
    """Yield each shard and its numbers as it is finished, in order of arrival.

    Args:
        stage: name of the arrow, for errors.
        store: where the shards are.
        work: the shards that still have to be worked on.
        build_worker: called once in every actor.
        pool: size and reservations of the actor pool; it starts with one actor and grows while there is work.
        no_progress_timeout_s: the stage fails when nothing was finished for this long.
        stop: heeded whenever a shard is finished; no further one is begun.

    Raises:
        StageError: a worker failed, or other shards came back than went in.
        StoppedError: `stop` was set.
    """
    if not work:
        return
    context = DataContext.get_current().copy()
    context.use_datasource_v2 = False  # V2 merges small files into one block; V1 keeps one file one block
    context.target_max_block_size = None  # a shard is never split
    context.execution_no_progress_timeout_s = no_progress_timeout_s
    context.enable_progress_bars = False  # progress is told in shards and documents
    context.raise_original_map_exception = True  # a worker's own words, not that some code of ours failed
    returned: set[int] = set()
    with DataContext.current(context):
        rows = _rows(stage, store, work, build_worker, pool)
        try:
            for row in until_stopped(stop or threading.Event(), rows):
                position = row.pop("position")
                if position in returned:
                    raise StageError(stage, work[position].unit, "it came back twice")
                returned.add(position)
                yield work[position], row
        except ray.exceptions.RayError as error:
            raise stage_error(stage, f"one of {len(work) - len(returned)} shards", error) from error
        finally:
            rows.close()  # or an error's traceback would keep Ray Data at work
    missing = sorted(set(range(len(work))) - returned)
    if missing:
        raise StageError(stage, work[missing[0]].unit, f"{len(missing)} of {len(work)} shards did not come back")


def _rows(
    stage: str, store: ArtifactStore, work: Sequence[ShardWork], build_worker: Callable[[], ShardWorker], pool: Pool
) -> Generator[dict[str, Any], None, None]:
    """Yield what the workers return; nothing begins before the first row is asked for, nor goes on after `close`."""
    paths = [item.shard.path for item in work]
    shards = ray.data.read_parquet(
        paths, filesystem=store.filesystem, include_paths=True, override_num_blocks=len(paths), num_cpus=READ_CPUS
    )
    packed = shards.map_batches(
        _OneShardPerRow(work).__call__,
        batch_size=None,
        batch_format="pyarrow",
        compute=TaskPoolStrategy(),
        num_cpus=READ_CPUS,
    )
    finished = packed.map_batches(
        _WorkOnRow,
        fn_constructor_args=(stage, work, build_worker),
        batch_size=1,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(min_size=1, max_size=min(pool.actors, len(work)), max_tasks_in_flight_per_actor=2),
        num_cpus=pool.cpus,
        num_gpus=pool.gpus or None,
        udf_modifying_row_count=False,
    )
    yield from finished.iter_rows()
