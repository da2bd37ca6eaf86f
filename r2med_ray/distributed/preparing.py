"""ENCODE and INDEX: what first stages need of corpora and queries, made by workers, one artefact per shard.

A shard whose artefact is stored is left alone, so running the same job again resumes it. A killed driver loses only
the shards that its actors were working on.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import ray

from r2med_ray.activity import GAUGES_EVERY_S, every
from r2med_ray.corpus.loading import rows_of_table
from r2med_ray.distributed import metrics
from r2med_ray.distributed.attempts import ENDED
from r2med_ray.distributed.failures import stage_error
from r2med_ray.distributed.progress import StageReport, follow
from r2med_ray.distributed.session import capacity_now
from r2med_ray.distributed.shard_stream import stream_shards
from r2med_ray.errors import StageError, named
from r2med_ray.first_stage import Computing, ShardedFirstStage
from r2med_ray.first_stages.making import READ_TOKENS, Made, each_tried_twice, make_all_queries, make_shard
from r2med_ray.first_stages.preparation import (
    STAGES,
    Corpora,
    QueryWork,
    Questions,
    ShardWork,
    queries_left,
    shards_left,
)
from r2med_ray.settings.pools import Pool
from r2med_ray.settings.resources import NO_PROGRESS_TIMEOUT_S
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.waiting import LOOKS_EVERY_S, Wait


class ShardWorker:
    """Holds in one actor what makes the artefacts of a first stage; makes and stores one shard after another."""

    def __init__(self, store: ArtifactStore, first_stage: ShardedFirstStage, computing: Computing) -> None:
        self._store = store
        self._maker = first_stage.load(store, computing)
        self._computing = computing

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        """Store what is made of a shard that was read whole; return `documents`, and what a service counted."""
        shard = rows_of_table(table, work.shard, skip_rows=work.skip_rows)
        return make_shard(self._store, self._maker, work, shard, self._computing)


def prepare_shards(
    store: ArtifactStore,
    corpora: Corpora,
    computing: Computing,
    pool: Pool,
    *,
    no_progress_timeout_s: int,
    stop: threading.Event | None = None,
) -> StageReport:
    """Store what is made of every shard of the corpora and isn't stored yet. A model is loaded once per actor.

    Args:
        store: where corpora and artefacts are; every worker must reach it.
        corpora: at least one.
        computing: what an actor computes with.
        pool: the number of actors, and what each reserves. One actor asks a service, so that the service's limit of
            requests at once holds.
        no_progress_timeout_s: the work fails when no shard was finished for this long.
        stop: heeded whenever a shard is finished; no further one is begun.

    Raises:
        StageError: a shard failed; the shards that were finished stay.
        StoppedError: `stop` was set; the shards that were finished stay.
    """
    first_stage = corpora[0][1]
    arrow = STAGES[first_stage.work]
    left = shards_left(store, corpora, computing.device)
    finished = stream_shards(
        arrow,
        store,
        left.work,
        partial(ShardWorker, store, first_stage, computing),
        pool=pool_for(first_stage, pool),
        no_progress_timeout_s=no_progress_timeout_s,
        stop=stop,
    )
    told = _told(first_stage, len(left.work), finished)
    return follow(f"{arrow} for {first_stage.label}", left, told, first_stage.cost)


def _told(
    first_stage: ShardedFirstStage, count: int, finished: Iterable[tuple[ShardWork, Mapping[str, float]]]
) -> Iterator[Mapping[str, float]]:
    """Yield the numbers of each shard that is finished, and keep the metrics.

    The driver keeps them: a worker may end before its node has asked for its metrics.
    """
    tags = {"stage": STAGES[first_stage.work], "model": first_stage.label}
    left = count

    def tell() -> None:
        metrics.shards_waiting().set(left, tags)

    with every(GAUGES_EVERY_S, tell):
        for _, numbers in finished:
            left -= 1
            for counter, name in ((metrics.documents, "documents"), (metrics.tokens, READ_TOKENS)):
                if number := numbers.get(name, 0):
                    counter().inc(number, tags)
            yield numbers
    left = 0
    tell()


def prepare_queries(
    store: ArtifactStore,
    questions: Questions,
    computing: Computing,
    pool: Pool,
    *,
    no_progress_timeout_s: float = NO_PROGRESS_TIMEOUT_S,
) -> StageReport | None:
    """Store what is made of queries and isn't stored yet, with one model in one process.

    Args:
        store: where artefacts are.
        questions: at least one.
        computing: what the process computes with.
        pool: what the process reserves.
        no_progress_timeout_s: the work fails when it takes longer than so many seconds for each set of queries.

    Returns:
        What was done; None where the first stages make nothing of queries.

    Raises:
        StageError: queries failed; what was finished stays.
    """
    first_stage = questions[0][1]
    left = queries_left(store, questions, computing.device)
    if left is None:
        return None
    label = f"{STAGES[first_stage.work]} queries for {first_stage.label}"
    made = _queries(store, first_stage, computing, pool_for(first_stage, pool), left.work, no_progress_timeout_s)
    return follow(label, left, made, first_stage.cost)


def _queries(
    store: ArtifactStore,
    first_stage: ShardedFirstStage,
    computing: Computing,
    pool: Pool,
    work: Sequence[QueryWork],
    timeout_s: float,
) -> Iterator[Mapping[str, int]]:
    """Have queries prepared by a worker, and yield the numbers of each."""
    stage = STAGES[first_stage.work]
    # A process that ends after its call: what is tried again isn't tried in the process in which it failed.
    make = ray.remote(max_calls=1)(make_all_queries)
    make = make.options(num_cpus=pool.cpus, num_gpus=pool.gpus, max_retries=1)

    def made(left: Sequence[QueryWork]) -> Made:
        units, wait = named([item.unit for item in left]), Wait(timeout_s * len(left))
        pending = make.remote(store, first_stage, computing, left)
        while not ray.wait([pending], timeout=LOOKS_EVERY_S)[0]:
            if not wait.goes_on(f"{stage}: {units}"):
                ray.cancel(pending, force=True)
                cause = f"no answer for {wait.limit_s:g} s, by the limit `resources.no_progress_timeout_s`"
                raise StageError(stage, units, f"{cause}. The cluster has {capacity_now().describe()}")
        try:
            return ray.get(pending)
        except ray.exceptions.WorkerCrashedError as error:
            if len(left) > 1:  # a process that ended doesn't say which of the sets it worked on
                return made(left[:1])
            queries = left[0].queries
            ids = f"{queries[0].query_id!r} to {queries[-1].query_id!r}"
            cause = f"the process that worked on the queries {ids} ended, {ENDED}"
            raise StageError(stage, left[0].unit, cause) from error
        except ray.exceptions.RayError as error:
            raise stage_error(stage, units, error) from error

    yield from each_tried_twice(work, made)


def pool_for(first_stage: ShardedFirstStage, pool: Pool) -> Pool:
    """Return the pool for a first stage. A service is asked by one actor, which needs no GPU."""
    return Pool(actors=1, cpus=pool.cpus) if first_stage.work == "ask a service" else pool
