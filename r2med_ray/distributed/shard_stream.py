"""Shards through Ray Data: read, handed whole to a worker, and counted when they come back.

Each Parquet file is one shard and becomes one row of the dataset, so a worker sees exactly one shard at a time,
whatever the size of the cluster. That is why the batches of an encoder, and the last bits of a vector, depend on the
corpus alone. Reading runs ahead of the workers. The shards of all tasks go through one stream, so a model is loaded
once per actor and not once per task. A shard that two artefacts are made of is read once.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, DataContext, TaskPoolStrategy

from r2med_ray.distributed.failures import stage_error
from r2med_ray.distributed.stopping import until_stopped
from r2med_ray.errors import StageError
from r2med_ray.first_stages.preparation import ShardWork, failing_as
from r2med_ray.settings.pools import Pool
from r2med_ray.storage.artifacts import ArtifactStore

READ_CPUS = 0.25
"""CPUs a reading task reserves: little, so that reading never waits behind a pool that fills the machine."""


WorkOnShard: TypeAlias = Callable[[ShardWork, pa.Table], Mapping[str, float]]
"""Stores what is made of one shard, a table with columns row, doc_id, title, text; returns numbers about it."""


class _OneShardPerRow:
    """Packs a block, which is one whole file, into one row; Arrow's nested lists keep the columns as they are."""

    def __init__(self, work: Sequence[ShardWork]) -> None:
        self._work = work
        self._positions = _positions(work)

    def __call__(self, block: pa.Table) -> pa.Table:
        positions = self._positions[block.column("path")[0].as_py()]
        item = self._work[positions[0]]
        if item.shard.num_rows != block.num_rows:
            cause = f"{block.num_rows} rows arrived, a whole shard has {item.shard.num_rows}"
            raise StageError("read", item.unit, cause)
        columns = {"positions": pa.array([positions], pa.list_(pa.int64()))}
        for name in ("row", "doc_id", "title", "text"):
            values = block.column(name).combine_chunks()
            columns[name] = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
        return pa.table(columns)


class _WorkOnRow:
    """Unpacks a row into the shard that it holds and gives it to the worker, which is built once per actor."""

    def __init__(self, stage: str, work: Sequence[ShardWork], build_worker: Callable[[], WorkOnShard]) -> None:
        self._stage = stage
        self._work = work
        self._worker = build_worker()

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        names = [name for name in batch.column_names if name != "positions"]
        table = pa.table({name: batch.column(name).combine_chunks().flatten() for name in names})
        for position in batch.column("positions")[0].as_py():
            item = self._work[position]
            with failing_as(self._stage, item.unit):
                numbers = self._worker(item, table)
            yield pa.table({"position": [position], **{name: [float(value)] for name, value in numbers.items()}})


def _positions(work: Sequence[ShardWork]) -> dict[str, list[int]]:
    """Return the path of each shard → the positions of its work. Several artefacts may be made of one shard."""
    positions: dict[str, list[int]] = {}
    for position, item in enumerate(work):
        positions.setdefault(item.shard.path, []).append(position)
    return positions


def stream_shards(
    stage: str,
    store: ArtifactStore,
    work: Sequence[ShardWork],
    build_worker: Callable[[], WorkOnShard],
    *,
    pool: Pool,
    no_progress_timeout_s: int,
    stop: threading.Event | None = None,
) -> Iterator[tuple[ShardWork, Mapping[str, float]]]:
    """Yield each shard and its numbers as it is finished, in order of arrival.

    Args:
        stage: name of the arrow, for errors.
        store: where the shards are.
        work: the shards that still have to be worked on; a shard may be there several times, with several keys.
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
    stage: str, store: ArtifactStore, work: Sequence[ShardWork], build_worker: Callable[[], WorkOnShard], pool: Pool
) -> Generator[dict[str, Any], None, None]:
    """Yield what the workers return. The work begins when the first row is asked for, and ends with `close`."""
    paths = list(_positions(work))
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
        compute=ActorPoolStrategy(min_size=1, max_size=min(pool.actors, len(paths)), max_tasks_in_flight_per_actor=2),
        num_cpus=pool.cpus,
        num_gpus=pool.gpus or None,
    )
    yield from finished.iter_rows()
