"""What is done with one row of the dataset of pieces: the shard is read, if it is of one, and then worked on.

What goes wrong comes back in the row: raised, it would end the work of all other actors, and Ray would put its own
words around it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import ray

from r2med_ray.blame import note_first_failure
from r2med_ray.corpus.pieces import piece_of
from r2med_ray.corpus.shards import SCHEMA, read_table
from r2med_ray.distributed.attempts import ENDED, Attempts
from r2med_ray.errors import DataError, StageError
from r2med_ray.first_stages.making import failing_as, is_final
from r2med_ray.first_stages.preparation import Piece, ShardWork
from r2med_ray.storage.artifacts import ArtifactStore

ATTEMPTS = 2
"""So many processes may end over one piece of work, or while one worker is built."""

READ_ATTEMPTS = 4
"""So many processes may end while they read one shard. Where a node's memory runs out, Ray ends such tasks first."""

WHOLE = (0, 1)
"""The piece that a whole shard is, and the number of its pieces."""

WorkOnPiece: TypeAlias = Callable[[Piece, pa.Table], Mapping[str, float]]
"""Stores what is made of one shard or one piece of it, a table with columns row, doc_id, title, text; or of queries,
with no rows in the table. Returns numbers about it."""


class Outcome(NamedTuple):
    """What became of a piece of work."""

    numbers: str = "{}"
    """JSON."""

    failure: str = ""
    is_final: bool = False
    """Whether it failed for good."""


class Trying:
    """Has a piece of work tried in this process, unless it ended other processes before.

    Ray Data starts those again without end.
    """

    def __init__(self, stage: str, attempts: Attempts) -> None:
        self.attempts = attempts
        self._stage = stage

    def at(
        self, item: Piece, what: str, make: Callable[[Piece], Mapping[str, float]], most: int = ATTEMPTS
    ) -> Outcome:
        """Return what became of a piece of work.

        Args:
            item: the piece.
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
                last = item.last_attempt()
                item = last if last.key == item.key else item  # the whole shard isn't in this process
            try:
                with failing_as(self._stage, item.unit):
                    return Outcome(json.dumps(dict(make(item))))
            except StageError as error:
                return Outcome(failure=error.cause, is_final=item.is_last_attempt or is_final(error))


class ReadShard:
    """Reads one whole shard into a row for each of its pieces. Arrow's nested lists keep the columns as they are.

    Queries, and what is made of a whole shard, have one row.
    """

    def __init__(self, store: ArtifactStore, work: Sequence[Piece], trying: Trying) -> None:
        self._store = store
        self._work = work
        self._trying = trying

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        positions = batch.column("positions")[0].as_py()
        table = SCHEMA.empty_table()

        def read(item: Piece) -> Mapping[str, float]:
            nonlocal table
            if isinstance(item, ShardWork):
                table = read_table(self._store, item.shard)
            return {}

        outcome = self._trying.at(self._work[positions[0]], "that read the shard", read, READ_ATTEMPTS)
        pieces: dict[tuple[int, int], list[int]] = {}
        for position in positions:
            item = self._work[position]
            piece = (item.piece, item.pieces) if isinstance(item, ShardWork) and item.whole else WHOLE
            pieces.setdefault(piece, []).append(position)
        for piece, of_piece in pieces.items():
            rows = table if piece == WHOLE or outcome.failure else piece_of(table, *piece)
            yield _row(outcome, of_piece, rows)


def _row(outcome: Outcome, positions: Sequence[int], table: pa.Table) -> pa.Table:
    columns = {name: pa.array([value]) for name, value in outcome._asdict().items()}
    columns["positions"] = pa.array([positions], pa.list_(pa.int64()))
    for name in SCHEMA.names:
        values = table.column(name).combine_chunks()
        columns[name] = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
    return pa.table(columns)


class WorkOnRow:
    """Unpacks a row into the shard that it holds and gives it to the worker, which is built once per actor."""

    def __init__(self, work: Sequence[Piece], build_worker: Callable[[], WorkOnPiece], trying: Trying) -> None:
        self._work = work
        self._trying = trying
        with trying.attempts.at(f"building {ray.get_runtime_context().get_actor_id()}") as ended:
            if ended >= ATTEMPTS:
                raise DataError(f"the process of a worker ended while it was built, {ENDED}")
            self._worker = build_worker()

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        read = Outcome(*(batch.column(name)[0].as_py() for name in Outcome._fields))
        table = pa.table({name: batch.column(name).combine_chunks().flatten() for name in SCHEMA.names})
        for position in batch.column("positions")[0].as_py():
            outcome = read
            if not read.failure:
                item = self._work[position]
                outcome = self._trying.at(item, _working_on(item, table), lambda item: self._worker(item, table))
            yield pa.Table.from_pylist([{"position": position, **outcome._asdict()}])


def _working_on(item: Piece, table: pa.Table) -> str:
    """Return in words what a process does, for the case that the process ends."""
    if isinstance(item, ShardWork):
        ids, kind = [table["doc_id"][at].as_py() for at in (0, -1)], "documents"
    else:
        ids, kind = [item.queries[at].query_id for at in (0, -1)], "queries"
    return f"that worked on the {kind} {ids[0]!r} to {ids[-1]!r}"
