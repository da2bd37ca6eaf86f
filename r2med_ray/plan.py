"""What a benchmark will do: systems × tasks, what is stored, what is missing, what each stage will reserve.

Reads the store and the task files; writes nothing and starts nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from r2med_ray.artifacts import ArtifactStore
from r2med_ray.capacity import ClusterCapacity, Pools
from r2med_ray.config import TaskConfig
from r2med_ray.corpus.catalog import TaskRow, resolve_tasks
from r2med_ray.corpus.convert import corpus_key, load_corpus
from r2med_ray.corpus.sources import DATA_FOLDER
from r2med_ray.errors import DataError
from r2med_ray.indexing.keys import skipped_rows, terms_key, vectors_key
from r2med_ray.systems import DenseStage, FirstStage, LexicalStage, ResolvedBenchmark
from r2med_ray.types import Corpus


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCount:
    """How many artefacts of one kind a task has and lacks."""

    what: str
    task: str
    stored: int
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The benchmark before it starts."""

    benchmark: ResolvedBenchmark
    pools: Pools
    capacity: ClusterCapacity
    corpora: tuple[tuple[str, str], ...]
    """(task, what is known about its corpus), in the order of the tasks."""

    shards: tuple[ShardCount, ...]

    def text(self) -> str:
        """Return the plan for people."""
        config = self.benchmark.config
        systems = self.benchmark.systems
        width = max(len(name) for name in [*(s.name for s in systems), *(name for name, _ in self.corpora)])
        lines = [
            f"benchmark {config.name}: {len(systems)} systems × {len(self.corpora)} tasks, depth {config.depth}, "
            f"compat {config.compat}",
            f"cluster: {self.capacity.describe()}",
            "systems",
            *(f"  {system.name:{width}}  {system.describe()}" for system in systems),
            "tasks",
            *(f"  {name:{width}}  {corpus}" for name, corpus in self.corpora),
            "artefacts of shards (stored + missing)",
            *(f"  {count.what}, {count.task}: {count.stored} + {count.missing}" for count in self.shards),
            "reservations",
            f"  encode    {self.pools.encode.describe()}",
            f"  tokenize  {self.pools.tokenize.describe()}",
            f"  search    {self.pools.search.describe()}",
            f"  rerank    {self.pools.rerank.describe()}",
        ]
        return "\n".join(lines)


def make_plan(benchmark: ResolvedBenchmark, store: ArtifactStore, pools: Pools, capacity: ClusterCapacity) -> Plan:
    """Look at task files and store.

    Args:
        benchmark: with all its names looked up.
        store: where artefacts are kept.
        pools: what each stage reserves; sizing them has refused what can never run.
        capacity: what the cluster has.
    """
    corpora: list[tuple[str, str]] = []
    shards: list[ShardCount] = []
    for entry in benchmark.tasks:
        try:
            known = _corpus(entry, benchmark, store)
        except DataError as error:  # a plan of what isn't there yet is still a plan; the run stops at this error
            corpora.append((entry.name, f"not here yet; {_source(entry) or error}"))
            continue
        corpora.append((entry.name, _describe(known)))
        if known is not None:
            shards += _count(benchmark, store, entry.name, known, pools.encode.device)
    return Plan(benchmark=benchmark, pools=pools, capacity=capacity, corpora=tuple(corpora), shards=tuple(shards))


def _corpus(entry: TaskRow | TaskConfig, benchmark: ResolvedBenchmark, store: ArtifactStore) -> Corpus | None:
    """Return the converted corpus of a task, or None where it is yet to be converted."""
    [source] = resolve_tasks([entry if isinstance(entry, TaskConfig) else entry.name], download=False)
    resources = benchmark.config.resources
    artifact = store.find(
        corpus_key(
            source,
            documents_per_shard=resources.documents_per_shard,
            shards=resources.shards,
            on_conflict=benchmark.on_conflict,
        )
    )
    return load_corpus(artifact) if artifact else None


def _source(entry: TaskRow | TaskConfig) -> str | None:
    """Say where the run will look for a task of the Hub."""
    if isinstance(entry, TaskConfig) or entry.hub is None:
        return None
    return f"${DATA_FOLDER}/{entry.name}, or {entry.hub} at {entry.revision[:12]} from the Hub"


def _describe(corpus: Corpus | None) -> str:
    if corpus is None:
        return "corpus to be converted; its shards are known afterwards"
    return f"{corpus.num_documents} documents in {len(corpus.shards)} shards, converted"


def _count(
    benchmark: ResolvedBenchmark, store: ArtifactStore, task: str, corpus: Corpus, device: str
) -> Iterator[ShardCount]:
    for stage in _distinct([stage for system in benchmark.systems for stage in system.first_stages]):
        if isinstance(stage, LexicalStage):
            keys = [terms_key(shard, skipped_rows(corpus, shard, stage.compat)) for shard in corpus.shards]
        else:
            inputs = stage.row.encoding_inputs(task, device=device, side="document")
            keys = [vectors_key(shard, corpus.duplicates_in(shard), inputs) for shard in corpus.shards]
        stored = sum(store.find(key) is not None for key in keys)
        what = "vectors" if isinstance(stage, DenseStage) else "terms"
        yield ShardCount(what=f"{what} for {stage.label}", task=task, stored=stored, missing=len(keys) - stored)


def _distinct(stages: Sequence[FirstStage]) -> list[FirstStage]:
    """Return one stage of each group that shares terms or vectors."""
    return list({(type(stage), stage.prepared_as): stage for stage in stages}.values())
