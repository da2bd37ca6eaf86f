"""ENCODE and INDEX: what first stages need of corpora and queries, made by workers, one artefact per shard.

Encoders make the artefact of a large shard in pieces. What is stored, a shard or a piece, is left alone, so running
the same job again resumes it. A killed driver loses only the pieces that its actors were working on.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import ray

from r2med_ray.activity import GAUGES_EVERY_S, every
from r2med_ray.distributed import metrics
from r2med_ray.distributed.artifact_worker import ArtifactWorker
from r2med_ray.distributed.attempts import Attempts
from r2med_ray.distributed.failures import stage_error
from r2med_ray.distributed.progress import Judge, StageReport, follow
from r2med_ray.distributed.shard_stream import READ_CPUS, stream_work
from r2med_ray.first_stage import Computing, ShardedFirstStage
from r2med_ray.first_stages.assembling import Gathered, put_together
from r2med_ray.first_stages.making import READ_TOKENS
from r2med_ray.first_stages.preparation import (
    STAGES,
    Corpora,
    Left,
    Piece,
    QueryWork,
    Questions,
    ShardWork,
    W,
    queries_left,
    shards_left,
)
from r2med_ray.settings.pools import Pool
from r2med_ray.storage.artifacts import ArtifactStore


class Prepared(NamedTuple):
    """What was done."""

    corpora: StageReport | None = None
    """None if there were no corpora."""

    queries: StageReport | None = None
    """None if nothing is made of queries."""


def prepare(
    store: ArtifactStore,
    corpora: Corpora,
    questions: Questions,
    computing: Computing,
    pool: Pool,
    *,
    no_progress_timeout_s: int,
    from_the_end: bool = False,
    stop: threading.Event | None = None,
    judge: Judge = lambda numbers, left: "",
) -> Prepared:
    """Store what is made of every shard of the corpora and of the queries, and isn't stored yet.

    The queries follow the shards through the same actors, so a model is loaded once per actor.

    Args:
        store: where corpora and artefacts are; every worker must reach it.
        corpora: their first stages share one model.
        questions: their first stages share the same model.
        computing: what an actor computes with.
        pool: the number of actors, and what each reserves. One actor asks a service, so that the service's limit of
            requests at once holds. One actor prepares queries where there are no shards.
        no_progress_timeout_s: the work fails when nothing was finished for this long.
        from_the_end: whether the last shard is made first.
        stop: heeded whenever a piece is finished; no further one is begun.
        judge: is told the numbers of the first piece.

    Raises:
        StageError: a shard or a set of queries failed; what was finished stays.
        StoppedError: `stop` was set; what was finished stays.
    """
    if not corpora and not questions:
        return Prepared()
    first_stage = corpora[0][1] if corpora else questions[0][1]
    shards = shards_left(store, corpora, computing.device, from_the_end=from_the_end)
    shards = shards._replace(work=[piece for work in shards.work for piece in work.in_pieces()])
    asked = queries_left(store, questions, computing.device)
    pool = pool_for(first_stage, pool)
    attempts: list[Attempts] = []
    arrow = STAGES[first_stage.work]
    finished = stream_work(
        arrow,
        store,
        [*shards.work, *(asked.work if asked else [])],
        partial(ArtifactWorker, store, first_stage, computing),
        pool=pool if shards.work else replace(pool, actors=1),
        no_progress_timeout_s=no_progress_timeout_s,
        stop=stop,
        told=attempts.append,
    )
    finished = _put_together(arrow, store, finished)
    return _followed(first_stage, shards if corpora else None, asked, finished, attempts, judge)


def _put_together(
    arrow: str, store: ArtifactStore, finished: Iterator[tuple[Piece, Mapping[str, float]]]
) -> Iterator[tuple[Piece, Mapping[str, float]]]:
    """Yield what is finished, and have each shard put together once all of its pieces are there.

    Tasks on the cluster do that while workers go on. The last of them ended when this does.

    Raises:
        StageError: a shard can't be put together.
    """
    gathered = Gathered()
    started: list[tuple[ShardWork, Any]] = []
    task = ray.remote(num_cpus=READ_CPUS)(put_together)
    for work, numbers in finished:
        whole, numbers = gathered.finished(work, numbers)
        if whole:
            started.append((whole, task.remote(store, whole)))
        yield work, numbers
    for whole, reference in started:
        try:
            ray.get(reference)
        except ray.exceptions.RayError as error:
            raise stage_error(arrow, whole.unit, error) from error


def _followed(
    first_stage: ShardedFirstStage,
    shards: Left[ShardWork] | None,
    asked: Left[QueryWork] | None,
    finished: Iterator[tuple[Piece, Mapping[str, float]]],
    attempts: list[Attempts],
    judge: Judge,
) -> Prepared:
    """Have work done and say how far it is, see `prepare`."""
    arrow = STAGES[first_stage.work]
    early: list[Mapping[str, float]] = []
    of_corpora = of_queries = None
    if shards is not None:
        of_shards, inside = _told(first_stage, shards, finished, early), _inside(attempts, shards)
        of_corpora = follow(f"{arrow} for {first_stage.label}", shards, of_shards, first_stage.cost, inside, judge)
    if asked is not None:
        rest, inside = chain(early, (numbers for _, numbers in finished)), _inside(attempts, asked)
        of_queries = follow(f"{arrow} queries for {first_stage.label}", asked, rest, first_stage.cost, inside)
    for _ in finished:  # nothing is left, and the stream says so if that isn't true
        pass
    return Prepared(of_corpora, of_queries)


def _inside(attempts: list[Attempts], left: Left[W]) -> Callable[[], tuple[int, int]]:
    """Return what says how many documents or queries, and their tokens, are done of pieces that are not finished.

    Args:
        attempts: gets what knows it for all pieces, when the work begins and when some is tried again.
        left: the pieces. Those of queries are named by another kind of key than those of shards.
    """
    kinds = {item.key.kind for item in left.work}
    kinds |= {item.whole.key.kind for item in left.work if isinstance(item, ShardWork) and item.whole}

    def inside() -> tuple[int, int]:
        return attempts[-1].inside(kinds) if attempts else (0, 0)

    return inside


def _told(
    first_stage: ShardedFirstStage,
    left: Left[ShardWork],
    finished: Iterator[tuple[Piece, Mapping[str, float]]],
    early: list[Mapping[str, float]],
) -> Iterator[Mapping[str, float]]:
    """Yield the numbers of each shard or piece that is finished, up to the last, and keep the metrics.

    The driver keeps them: a worker may end before its node has asked for its metrics.

    Args:
        first_stage: the shards are prepared for it.
        left: the shards, or their pieces.
        finished: these and queries.
        early: gets the numbers of queries that are finished before the last of them.
    """
    tags = {"stage": STAGES[first_stage.work], "model": first_stage.label}
    waiting = len(left.work)
    if not waiting:
        return

    def tell() -> None:
        metrics.shards_waiting().set(waiting, tags)

    with every(GAUGES_EVERY_S, tell):
        for work, numbers in finished:
            if isinstance(work, QueryWork):
                early.append(numbers)
                continue
            waiting -= 1
            for counter, name in ((metrics.documents, "documents"), (metrics.tokens, READ_TOKENS)):
                if number := numbers.get(name, 0):
                    counter().inc(number, tags)
            yield numbers
            if not waiting:
                break
        waiting = 0  # a shard that was made whole after a piece failed leaves other pieces unmade
        tell()


def pool_for(first_stage: ShardedFirstStage, pool: Pool) -> Pool:
    """Return the pool for a first stage. A service is asked by one actor, which needs no GPU."""
    return Pool(actors=1, cpus=pool.cpus) if first_stage.work == "ask a service" else pool
