"""Shard workers for tests, importable by Ray's processes."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from r2med_ray.distributed.encode import Encoding, ShardEncoder
from r2med_ray.distributed.shard_stream import ShardWork
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task


class SlowWorker:
    """Counts the rows of a shard, and takes its time, so that several actors get work."""

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        time.sleep(0.2)
        return {"rows": table.num_rows}


class MarksShards(SlowWorker):
    """Leaves a file for every shard that it begins."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        (self._folder / str(work.shard.index)).touch()
        return super().__call__(work, table)


class DiesOnce(SlowWorker):
    """Ends its process in the middle of the second shard, the first time."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        if work.shard.index == 1 and not self._marker.exists():
            self._marker.touch()
            os._exit(1)
        return super().__call__(work, table)


class EncoderKilledOnce(ShardEncoder):
    """A real encoder whose process ends in the middle of the second shard, the first time."""

    def __init__(self, store: ArtifactStore, encoding: Encoding, tasks: list[Task], marker: Path) -> None:
        super().__init__(store, encoding, tasks, threads=1)
        self._marker = marker

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        if work.shard.index == 1 and not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(work, table)
