"""ENCODE: the corpora of all tasks through one pool of actors that hold a model, one artefact per shard.

A shard whose vectors are stored is not encoded again, so resuming is running the same job: what a killed driver loses
is the shard that each of its actors was holding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import ray

from r2med_ray.artifacts import ArtifactKey, ArtifactStore
from r2med_ray.capacity import Pool
from r2med_ray.corpus.loading import rows_of_table
from r2med_ray.distributed.failures import stage_error
from r2med_ray.distributed.progress import Progress, StageReport
from r2med_ray.distributed.shard_stream import ShardWork, stream_shards
from r2med_ray.indexing.embedding import embed_documents, vectors_table
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE, VECTORS_FILE, query_vectors_key, vectors_key
from r2med_ray.models.devices import prepare_worker
from r2med_ray.models.rows import EncoderRow
from r2med_ray.models.task_encoders import TaskEncoders
from r2med_ray.retrieval.query_construction import prepare_dense
from r2med_ray.types import Compat, CorpusShard, Query, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """An encoder, and what it computes on."""

    row: EncoderRow
    device: str
    token_budget: int

    def load(self, threads: int) -> TaskEncoders:
        """Load the model into this process."""
        prepare_worker(threads)
        return TaskEncoders(self.row, device=self.device, token_budget=self.token_budget)

    def vectors_key(self, task: Task, shard: CorpusShard) -> ArtifactKey:
        """Return the key of one shard's vectors."""
        inputs = self.row.encoding_inputs(task.name, device=self.device, side="document")
        return vectors_key(shard, task.corpus.duplicates_in(shard), inputs)

    def query_vectors_key(self, task: Task, queries: Sequence[Query], compat: Compat) -> ArtifactKey:
        """Return the key of the vectors of a task's queries, as one rewriter left them."""
        inputs = self.row.encoding_inputs(task.name, device=self.device)
        return query_vectors_key(queries, {**inputs, "expansion": self.row.expansion_prompt, "compat": compat})


class ShardEncoder:
    """Holds the model of one actor; embeds a shard and stores its vectors."""

    def __init__(self, store: ArtifactStore, encoding: Encoding, tasks: Sequence[Task], threads: int) -> None:
        self._store = store
        self._encoding = encoding
        self._tasks = {task.name: task for task in tasks}
        self._encoders = encoding.load(threads)

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        shard = rows_of_table(table, work.shard, skip_rows=work.skip_rows)
        vectors = embed_documents(self._encoders.for_task(work.task), shard.documents, shard.rows)
        with self._store.create(self._encoding.vectors_key(self._tasks[work.task], work.shard)) as writer:
            writer.write_table(VECTORS_FILE, vectors)
        return {"documents": len(shard.documents)}


def encode_corpora(
    store: ArtifactStore, encoding: Encoding, tasks: Sequence[Task], pool: Pool, *, no_progress_timeout_s: int
) -> StageReport:
    """Store the vectors of every shard that has none yet.

    Raises:
        StageError: a shard failed; the shards that were finished stay.
    """
    work = [
        ShardWork(task=task.name, shard=shard, skip_rows=task.corpus.duplicates_in(shard))
        for task in tasks
        for shard in task.corpus.shards
        if store.find(encoding.vectors_key(task, shard)) is None
    ]
    documents = sum(item.num_documents for item in work)
    with Progress(f"encode with {encoding.row.name}", len(work), documents) as progress:
        for _, numbers in stream_shards(
            "encode",
            store,
            work,
            partial(ShardEncoder, store, encoding, tasks, pool.threads),
            pool=pool,
            no_progress_timeout_s=no_progress_timeout_s,
        ):
            progress.add(int(numbers["documents"]))
    return progress.report(stored_before=sum(len(task.corpus.shards) for task in tasks) - len(work))


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The queries of a task, as one rewriter left them."""

    task: Task
    queries: tuple[Query, ...]
    compat: Compat


def encode_queries(
    store: ArtifactStore, encoding: Encoding, questions: Sequence[Questions], pool: Pool
) -> StageReport:
    """Store the vectors of all queries that have none yet, with one model in one process.

    Raises:
        StageError: the process failed.
    """
    keys = [encoding.query_vectors_key(asked.task, asked.queries, asked.compat) for asked in questions]
    distinct = {key.name: (key, asked) for key, asked in zip(keys, questions, strict=True)}
    missing = [asked for key, asked in distinct.values() if store.find(key) is None]
    with Progress(
        f"encode queries with {encoding.row.name}", 1, sum(len(asked.queries) for asked in missing)
    ) as progress:
        if missing:
            encode = ray.remote(_encode_queries).options(num_cpus=pool.cpus, num_gpus=pool.gpus, max_retries=3)
            try:
                progress.add(ray.get(encode.remote(store, encoding, missing, pool.threads)))
            except ray.exceptions.RayError as error:
                raise stage_error("encode", f"the queries of {len(missing)} task(s)", error) from error
    return progress.report(stored_before=len(distinct) - len(missing))


def _encode_queries(store: ArtifactStore, encoding: Encoding, questions: Sequence[Questions], threads: int) -> int:
    encoders = encoding.load(threads)
    for asked in questions:
        vectors_QD = prepare_dense(
            asked.queries,
            encoders.for_task(asked.task.name),
            compat=asked.compat,
            expansion_prompt=encoding.row.expansion_prompt,
            cosine=encoding.row.similarity == "cosine" or asked.compat == "r2med",
        )
        query_ids = [query.query_id for query in asked.queries]
        table = vectors_table(range(len(query_ids)), query_ids, vectors_QD)
        with store.create(encoding.query_vectors_key(asked.task, asked.queries, asked.compat)) as writer:
            writer.write_table(QUERY_VECTORS_FILE, table)
    return sum(len(asked.queries) for asked in questions)
