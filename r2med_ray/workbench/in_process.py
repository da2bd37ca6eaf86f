"""First stages in this process, by the callables that workers of a cluster call: prepare, index, search. No Ray.

One shard after the other, the same artefacts in the same store, the same rankings.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from r2med_ray.blame import note_first_failure
from r2med_ray.corpora import CorpusShard
from r2med_ray.corpus.pieces import piece_of
from r2med_ray.corpus.shards import SCHEMA, read_table
from r2med_ray.distributed.progress import Judge, StageReport, follow
from r2med_ray.distributed.stopping import until_stopped
from r2med_ray.errors import StageError
from r2med_ray.first_stage import Computing, Maker, ShardedFirstStage
from r2med_ray.first_stages.assembling import Gathered, put_together
from r2med_ray.first_stages.making import failing_as, is_final, make_queries, make_shard, rows_of_work
from r2med_ray.first_stages.preparation import (
    STAGES,
    Corpora,
    Piece,
    QueryWork,
    Questions,
    ShardWork,
    queries_left,
    shards_left,
)
from r2med_ray.retrieval.search import PlainRetriever, ReadWhenSearched
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task


class PlainIndex(PlainRetriever[Any]):
    """The index of a corpus in this process, ready for searches until it is closed."""

    def close(self) -> None:
        """Let go of the shards."""
        self._shards = ()


class InProcess:
    """Does in this process what `distributed.preparing` and `distributed.searching` do on a cluster.

    Args:
        store: where corpora and artefacts are kept.
        computing: what this process computes with.
    """

    def __init__(self, store: ArtifactStore, computing: Computing) -> None:
        self._store = store
        self._computing = computing

    def prepare_shards(
        self,
        corpora: Corpora,
        *,
        from_the_end: bool = False,
        stop: threading.Event | None = None,
        judge: Judge = lambda numbers, left: "",
    ) -> StageReport:
        """Store what is made of every shard of the corpora and isn't stored yet. A model is loaded once.

        Args:
            corpora: at least one.
            from_the_end: whether the last shard is made first.
            stop: heeded whenever a piece is finished; no further one is begun.
            judge: is told the numbers of the first piece.

        Raises:
            StageError: a shard failed; the shards that were finished stay.
            StoppedError: `stop` was set; the shards that were finished stay.
        """
        first_stage = corpora[0][1]
        arrow = STAGES[first_stage.work]
        left = shards_left(self._store, corpora, self._computing.device, from_the_end=from_the_end)
        left = left._replace(work=[piece for work in left.work for piece in work.in_pieces()])
        finished = until_stopped(stop or threading.Event(), self._made(first_stage, left.work))
        return follow(f"{arrow} for {first_stage.label}", left, finished, first_stage.cost, judge=judge)

    def prepare_queries(self, questions: Questions) -> StageReport | None:
        """Store what is made of queries and isn't stored yet.

        Args:
            questions: at least one.

        Returns:
            What was done; None where the first stages make nothing of queries.

        Raises:
            StageError: queries failed; what was finished stays.
        """
        first_stage = questions[0][1]
        left = queries_left(self._store, questions, self._computing.device)
        if left is None:
            return None
        label = f"{STAGES[first_stage.work]} queries for {first_stage.label}"
        return follow(label, left, self._made(first_stage, left.work), first_stage.cost)

    def open_index(
        self,
        task: Task,
        first_stage: ShardedFirstStage,
        *,
        one_at_a_time: bool = False,
        query_store: ArtifactStore | None = None,
    ) -> PlainIndex:
        """Load the index of every shard of a task's corpus; what is made of them must be stored.

        Args:
            task: has the corpus.
            first_stage: searches it.
            one_at_a_time: whether the shards are read one by one for every search, and none is held.
            query_store: where the artefacts of queries are, if that is another store.

        Raises:
            ArtifactError: something of the corpus is not stored.
        """
        device = self._computing.device
        load = partial(
            first_stage.load_index,
            self._store,
            task,
            gathered=first_stage.gather(self._store, task, device),
            device=device,
        )
        shards = task.corpus.shards
        return PlainIndex(
            f"{first_stage.label} on {task.name}",
            partial(first_stage.prepare, query_store or self._store, task, device=device),
            [ReadWhenSearched(partial(load, shard)) if one_at_a_time else load(shard) for shard in shards],
            drop_identical_ids=first_stage.drop_identical_ids,
            ties=first_stage.ties,
            rescore_multiplier=first_stage.rescore_multiplier,
            one_at_a_time=one_at_a_time,
        )

    def _made(self, first_stage: ShardedFirstStage, pieces: Sequence[Piece]) -> Iterator[Mapping[str, float]]:
        """Make pieces one after another, and yield the numbers of each. A piece that fails is tried again once."""
        if not pieces:
            return
        maker = first_stage.load(self._store, self._computing)
        table = _Table(self._store)
        gathered, wholes = Gathered(), set[str]()
        for work in pieces:
            if isinstance(work, ShardWork) and work.whole and work.whole.key.name in wholes:
                continue  # a piece of a shard that was made whole
            try:
                numbers = self._make(first_stage, maker, work, table)
            except StageError as failure:
                if is_final(failure):
                    raise
                note_first_failure(failure)
                del maker  # two may not fit into memory
                maker = first_stage.load(self._store, self._computing)
                work = work.last_attempt()
                numbers = self._make(first_stage, maker, work, table)
                wholes.add(work.key.name)
            whole, numbers = gathered.finished(work, numbers)
            if whole:
                with failing_as(STAGES[first_stage.work], whole.unit):
                    put_together(self._store, whole)
            yield numbers

    def _make(
        self, first_stage: ShardedFirstStage, maker: Maker, work: Piece, table: "_Table"
    ) -> Mapping[str, float]:
        with failing_as(STAGES[first_stage.work], work.unit):
            if isinstance(work, QueryWork):
                return make_queries(self._store, maker, work, self._computing)
            return make_shard(self._store, maker, work, rows_of_work(table.of(work), work), self._computing)


class _Table:
    """The table of the shard that was read last: pieces follow each other."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._shard: CorpusShard | None = None
        self._table = SCHEMA.empty_table()

    def of(self, work: ShardWork) -> pa.Table:
        """Return the table of a shard, or of a piece of it."""
        if work.shard != self._shard:
            self._shard, self._table = work.shard, read_table(self._store, work.shard)
        return piece_of(self._table, work.piece, work.pieces) if work.whole else self._table
