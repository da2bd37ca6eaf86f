"""Shard workers for tests, which Ray's processes can import, and whether such a process has ended."""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pyarrow as pa

from r2med_ray.distributed.artifact_worker import ArtifactWorker
from r2med_ray.first_stage import Computing, ShardedFirstStage
from r2med_ray.first_stages.preparation import Piece, ShardWork
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, FloatMatrix
from tests.fakes import wait_until
from tests.unit.toy_models import LetterCounts


def has_ended(process: int) -> bool:
    """Return whether a process has ended."""
    return not psutil.pid_exists(process) or psutil.Process(process).status() == psutil.STATUS_ZOMBIE


class CountsRows:
    """A worker that counts the rows of a shard."""

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        return {"rows": table.num_rows}


class WaitsAtTheGate(CountsRows):
    """A worker that leaves a file INDEX.PROCESS for every shard that it begins.

    After `FREE` shards it goes on only if there is a file `go`.
    """

    FREE = 5

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._began = 0

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        (self._folder / f"{work.shard.index}.{os.getpid()}").touch()
        self._began += 1
        if self._began > self.FREE:
            wait_until((self._folder / "go").exists)
        return super().__call__(work, table)


class WaitsAtTheLast(CountsRows):
    """A worker that leaves a file `last` when it begins a certain shard, which it ends when there is a file `go`."""

    def __init__(self, folder: Path, last: int) -> None:
        self._folder = folder
        self._last = last

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        if work.shard.index == self._last:
            (self._folder / "last").touch()
            wait_until((self._folder / "go").exists, deadline_s=200)
        return super().__call__(work, table)


class DiesOnce(CountsRows):
    """A worker that ends its process in the middle of the second shard, but only once."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        if work.shard.index == 1 and not self._marker.exists():
            self._marker.touch()
            os._exit(1)
        return super().__call__(work, table)


class GatedLetters(LetterCounts):
    """An encoder that leaves a file `encoding` in the folder `query_prompt`, and waits there for a file `go`."""

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        folder = Path(self.row.query_prompt)
        (folder / "encoding").touch()
        wait_until((folder / "go").exists, deadline_s=200)
        return super().encode_documents(documents)


class EncoderKilledOnce(ArtifactWorker):
    """A real encoder whose process ends in the middle of the second shard, but only once."""

    def __init__(
        self, store: ArtifactStore, first_stage: ShardedFirstStage, computing: Computing, marker: Path
    ) -> None:
        super().__init__(store, first_stage, computing)
        self._marker = marker

    def __call__(self, work: Piece, table: pa.Table) -> Mapping[str, float]:
        if isinstance(work, ShardWork) and work.shard.index == 1 and not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(work, table)
