"""ENCODE: the corpora of all tasks through one pool of actors that hold a model, one artefact per shard.

A shard whose vectors are stored is not encoded again, so resuming is running the same job: what a killed driver loses
is the shard that each of its actors was holding.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol

import pyarrow as pa
import ray

from r2med_ray.capacity import Pool
from r2med_ray.corpus.loading import ShardRows, rows_of_table
from r2med_ray.distributed.failures import stage_error
from r2med_ray.distributed.progress import Progress, StageReport
from r2med_ray.distributed.shard_stream import ShardWork, stream_shards
from r2med_ray.distributed.stage_parts import Asked, Done, Workplace, tasks_of
from r2med_ray.indexing.embedding import embed_documents, vectors_table
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE, VECTORS_FILE, query_vectors_key, vectors_key
from r2med_ray.models.catalog.api_rows import ApiEncoderRow
from r2med_ray.models.catalog.devices import prepare_worker
from r2med_ray.models.catalog.rows import EncoderRow
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.protocols import Encoder
from r2med_ray.retrieval.query_construction import prepare_dense
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.stages.vectors import VectorRow
from r2med_ray.storage.artifacts import ArtifactKey, ArtifactStore
from r2med_ray.types import Compat, CorpusShard, Query, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The queries of a task, as one rewriter left them."""

    task: Task
    queries: tuple[Query, ...]
    compat: Compat


class Embedder(Protocol):
    """A model in this process, and how its answers are stored."""

    def embed_documents(self, task: str, shard: ShardRows) -> pa.Table:
        """Return a shard's documents as columns row, doc_id and what an index is built from.

        Raises:
            DataError: a number is not finite; names the documents.
        """
        ...

    def embed_queries(self, asked: Questions) -> pa.Table:
        """Return what the indexes are asked, one row per query, in their order."""
        ...

    def take_usage(self) -> Mapping[str, int]:
        """Return what a service counted since the last call; nothing for a model that runs here."""
        return {}


class CorpusEncoding(Protocol):
    """A model and what it computes on, before it is loaded; names what it makes."""

    @property
    def name(self) -> str: ...

    def load(self, threads: int) -> Embedder:
        """Load the model into this process."""
        ...

    def vectors_key(self, task: Task, shard: CorpusShard) -> ArtifactKey:
        """Return the key of one shard's vectors."""
        ...

    def query_vectors_key(self, task: Task, queries: Sequence[Query], compat: Compat) -> ArtifactKey:
        """Return the key of the vectors of a task's queries, as one rewriter left them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorEncoding(Generic[VectorRow]):
    """What makes one vector per text, and on what."""

    row: VectorRow
    device: str

    @property
    def name(self) -> str:
        return self.row.name

    def vectors_key(self, task: Task, shard: CorpusShard) -> ArtifactKey:
        """Return the key of one shard's vectors."""
        inputs = self.row.encoding_inputs(task.name, device=self.device, side="document")
        return vectors_key(shard, task.corpus.duplicates_in(shard), inputs)

    def query_vectors_key(self, task: Task, queries: Sequence[Query], compat: Compat) -> ArtifactKey:
        """Return the key of the vectors of a task's queries, as one rewriter left them."""
        inputs = self.row.encoding_inputs(task.name, device=self.device)
        return query_vectors_key(queries, {**inputs, "expansion": self.row.expansion_prompt, "compat": compat})


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding(VectorEncoding[EncoderRow]):
    """A dense encoder, and what it computes on."""

    token_budget: int

    def load(self, threads: int) -> Embedder:
        """Load the model into this process."""
        prepare_worker(threads)
        encoders = TaskEncoders(self.row, device=self.device, token_budget=self.token_budget)
        return DenseEmbedder(self.row, encoders.for_task)


class DenseEmbedder(Embedder):
    """One vector per text."""

    def __init__(self, row: EncoderRow | ApiEncoderRow, encoder_for: Callable[[str], Encoder]) -> None:
        self._row = row
        self._encoder_for = encoder_for

    def embed_documents(self, task: str, shard: ShardRows) -> pa.Table:
        """Return columns row, doc_id, vector."""
        return embed_documents(self._encoder_for(task), shard.documents, shard.rows)

    def embed_queries(self, asked: Questions) -> pa.Table:
        """Return columns row, doc_id, vector; an id is a query's."""
        vectors_QD = prepare_dense(
            asked.queries,
            self._encoder_for(asked.task.name),
            compat=asked.compat,
            expansion_prompt=self._row.expansion_prompt,
            cosine=self._row.similarity == "cosine" or asked.compat == "r2med",
        )
        query_ids = [query.query_id for query in asked.queries]
        return vectors_table(range(len(query_ids)), query_ids, vectors_QD)


class ShardEncoder:
    """Holds the model of one actor; embeds a shard and stores its vectors."""

    def __init__(self, store: ArtifactStore, encoding: CorpusEncoding, tasks: Sequence[Task], threads: int) -> None:
        self._store = store
        self._encoding = encoding
        self._tasks = {task.name: task for task in tasks}
        self._embedder = encoding.load(threads)

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        shard = rows_of_table(table, work.shard, skip_rows=work.skip_rows)
        vectors = self._embedder.embed_documents(work.task, shard)
        with self._store.create(self._encoding.vectors_key(self._tasks[work.task], work.shard)) as writer:
            writer.write_table(VECTORS_FILE, vectors)
        return {"documents": len(shard.documents), **self._embedder.take_usage()}


def encode(at: Workplace, encoding: CorpusEncoding, asked: Sequence[Asked[FirstStage]]) -> list[Done]:
    """Store the vectors of all corpora and queries that have none yet, and say what was done.

    Raises:
        StageError: a shard or a set of queries failed; what was finished stays.
        StoppedError: `at.stop` was set.
    """
    timeout = at.resources.no_progress_timeout_s
    corpora = encode_corpora(
        at.store, encoding, tasks_of(asked), at.pools.encode, no_progress_timeout_s=timeout, stop=at.stop
    )
    label = asked[0].stage.label
    questions = [
        Questions(task=item.task, queries=item.queries, compat=item.stage.compat) for item in asked if item.queries
    ]
    if not questions:
        return [("encode", label, corpora)]
    queries = encode_queries(at.store, encoding, questions, at.pools.encode)
    return [("encode", label, corpora), ("encode queries", label, queries)]


def encode_corpora(
    store: ArtifactStore,
    encoding: CorpusEncoding,
    tasks: Sequence[Task],
    pool: Pool,
    *,
    no_progress_timeout_s: int,
    stop: threading.Event | None = None,
) -> StageReport:
    """Store the vectors of every shard that has none yet.

    Raises:
        StageError: a shard failed; the shards that were finished stay.
        StoppedError: `stop` was set; the shards that were finished stay.
    """
    work = [
        ShardWork(task=task.name, shard=shard, skip_rows=task.corpus.duplicates_in(shard))
        for task in tasks
        for shard in task.corpus.shards
        if store.find(encoding.vectors_key(task, shard)) is None
    ]
    documents = sum(item.num_documents for item in work)
    usage: Counter[str] = Counter()
    with Progress(f"encode with {encoding.name}", len(work), documents) as progress:
        for _, numbers in stream_shards(
            "encode",
            store,
            work,
            partial(ShardEncoder, store, encoding, tasks, pool.threads),
            pool=pool,
            no_progress_timeout_s=no_progress_timeout_s,
            stop=stop,
        ):
            progress.add(int(numbers["documents"]))
            usage.update({name: int(count) for name, count in numbers.items() if name != "documents"})
    stored_before = sum(len(task.corpus.shards) for task in tasks) - len(work)
    return progress.report(stored_before=stored_before, usage=usage)


def encode_queries(
    store: ArtifactStore, encoding: CorpusEncoding, questions: Sequence[Questions], pool: Pool
) -> StageReport:
    """Store the vectors of all queries that have none yet, with one model in one process.

    Raises:
        StageError: the process failed.
    """
    keys = [encoding.query_vectors_key(asked.task, asked.queries, asked.compat) for asked in questions]
    distinct = {key.name: (key, asked) for key, asked in zip(keys, questions, strict=True)}
    missing = [asked for key, asked in distinct.values() if store.find(key) is None]
    usage: Mapping[str, int] = {}
    with Progress(
        f"encode queries with {encoding.name}", 1, sum(len(asked.queries) for asked in missing)
    ) as progress:
        if missing:
            encode = ray.remote(_encode_queries).options(num_cpus=pool.cpus, num_gpus=pool.gpus, max_retries=3)
            try:
                documents, usage = ray.get(encode.remote(store, encoding, missing, pool.threads))
                progress.add(documents)
            except ray.exceptions.RayError as error:
                raise stage_error("encode", f"the queries of {len(missing)} task(s)", error) from error
    return progress.report(stored_before=len(distinct) - len(missing), usage=usage)


def _encode_queries(
    store: ArtifactStore, encoding: CorpusEncoding, questions: Sequence[Questions], threads: int
) -> tuple[int, Mapping[str, int]]:
    embedder = encoding.load(threads)
    for asked in questions:
        with store.create(encoding.query_vectors_key(asked.task, asked.queries, asked.compat)) as writer:
            writer.write_table(QUERY_VECTORS_FILE, embedder.embed_queries(asked))
    return sum(len(asked.queries) for asked in questions), embedder.take_usage()
