"""What a benchmark will do: systems × tasks, what is stored, what is missing, what each stage will reserve.

Reads the store and the task files; writes nothing and starts nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from r2med_ray.artifacts import ArtifactStore
from r2med_ray.capacity import ClusterCapacity, Pools
from r2med_ray.config import TaskConfig
from r2med_ray.corpus.catalog import TaskRow, resolve_tasks
from r2med_ray.corpus.convert import corpus_key, load_corpus
from r2med_ray.corpus.loading import read_task_queries
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError, NotAtHand, StageError
from r2med_ray.models.at_hand import ModelsAtHand
from r2med_ray.models.chat import ServedModel
from r2med_ray.models.llm_reranker_rows import LlmRerankerRow
from r2med_ray.models.llm_rows import LanguageModelRow
from r2med_ray.reporting.missing import Missing, needs
from r2med_ray.reporting.record import MissingRecord
from r2med_ray.rewriting.generations import StoredGenerator
from r2med_ray.rewriting.live import LiveRewriter
from r2med_ray.rewriting.prompts import load_prompt
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.systems import ResolvedBenchmark, prompt_task
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
    unwritten: tuple[str, ...]
    """What language models have yet to write, per system and task."""

    needs: tuple[str, ...]
    """What is not on this machine, with what waits for it."""

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
            *(["not on this machine; the run asks the Hub"] if self.needs else []),
            *(f"  {line}" for line in self.needs),
            "artefacts of shards (stored + missing)",
            *(f"  {count.what}, {count.task}: {count.stored} + {count.missing}" for count in self.shards),
            *(["texts that a language model has yet to write"] if self.unwritten else []),
            *(f"  {line}" for line in self.unwritten),
            "reservations",
            f"  encode    {self.pools.encode.describe()}",
            f"  tokenize  {self.pools.tokenize.describe()}",
            f"  search    {self.pools.search.describe()}",
            f"  rerank    {self.pools.rerank.describe()}",
            *self._language_models(),
        ]
        return "\n".join(lines)

    def _language_models(self) -> list[str]:
        """Return what each language model that is to be served would reserve."""
        pool = self.pools.language_model
        rows = [system.language_model for system in self.benchmark.systems]
        rerankers = [system.reranker for system in self.benchmark.systems]
        known = self.benchmark.catalog.language_models
        rows += [known[row.language_model] for row in rerankers if isinstance(row, LlmRerankerRow)]
        each = {row.name: row for row in rows if row and row.is_served}
        return [
            f"  language model {name}: {row.min_replicas}-{row.max_replicas} replicas, each {row.workers} × "
            f"{pool.cpus:g} CPU" + (f" + {pool.gpus:g} GPU" if pool.gpus else "")
            for name, row in each.items()
        ]


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
    unwritten: list[str] = []
    for entry in benchmark.tasks:
        try:
            known = _corpus(entry, benchmark, store)
            unwritten += _unwritten(benchmark, store, entry)
        except DataError as error:  # a plan of what isn't there yet is still a plan; the run stops at this error
            what = error.what if isinstance(error, NotAtHand) else str(error)
            corpora.append((entry.name, f"not here yet: {what}"))
            continue
        corpora.append((entry.name, _describe(known)))
        if known is not None:
            shards += _count(benchmark, store, entry.name, known, pools.encode.device)
    return Plan(
        benchmark=benchmark,
        pools=pools,
        capacity=capacity,
        corpora=tuple(corpora),
        shards=tuple(shards),
        unwritten=tuple(unwritten),
        needs=tuple(needs(_not_here(benchmark))),
    )


def _not_here(benchmark: ResolvedBenchmark) -> list[MissingRecord]:
    """Return what this machine lacks of tasks, generated texts and models; the Hub is not asked."""
    missing = Missing("skip")
    models = ModelsAtHand(benchmark.catalog, memory_gb=None, device="cpu", ask_hub=False)
    for entry in benchmark.tasks:
        folder: Path | None = None
        with missing.noted(entry.name, [system.name for system in benchmark.systems]):
            folder = find_task(entry, download=False).folder
        for system in benchmark.systems:
            with missing.noted(entry.name, [system.name]):
                rewriter = system.config.rewriter
                if folder and rewriter and rewriter.generations:
                    ReplayRewriter(rewriter, folder=folder)
            for row in (*(stage.row for stage in system.first_stages), system.reranker):
                with missing.noted(entry.name, [system.name]):
                    models.require(row)
    return missing.records


def find_task(entry: TaskRow | TaskConfig, *, download: bool = True) -> TaskSource:
    """Return where a task's files are.

    Raises:
        NotAtHand: they are not on this machine, and the Hub doesn't give them or was not to be asked.
    """
    if isinstance(entry, TaskRow):
        return entry.locate(download=download)
    [source] = resolve_tasks([entry])
    return source


def _corpus(entry: TaskRow | TaskConfig, benchmark: ResolvedBenchmark, store: ArtifactStore) -> Corpus | None:
    """Return the converted corpus of a task, or None where it is yet to be converted."""
    source = find_task(entry, download=False)
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


def _describe(corpus: Corpus | None) -> str:
    if corpus is None:
        return "corpus to be converted; its shards are known afterwards"
    return f"{corpus.num_documents} documents in {len(corpus.shards)} shards, converted"


def _count(
    benchmark: ResolvedBenchmark, store: ArtifactStore, task: str, corpus: Corpus, device: str
) -> Iterator[ShardCount]:
    for stage in _distinct([stage for system in benchmark.systems for stage in system.first_stages]):
        keys = stage.artifacts(task, corpus, device)
        stored = sum(store.find(key) is not None for key in keys)
        yield ShardCount(
            what=f"{stage.holds} for {stage.label}", task=task, stored=stored, missing=len(keys) - stored
        )


def _unwritten(benchmark: ResolvedBenchmark, store: ArtifactStore, entry: TaskRow | TaskConfig) -> Iterator[str]:
    queries = read_task_queries(find_task(entry, download=False))
    for system in benchmark.systems:
        row, config = system.language_model, system.config.rewriter
        if row is None or config is None:
            continue
        name, most = f"{system.name}, {entry.name}", len(queries) * config.samples
        if system.tool:
            yield f"{name}: up to {most}; they depend on what {system.tool.label} finds"
            continue
        try:
            generator = StoredGenerator(ServedModel(row, partial(_unasked, row)), store)
            prompt = load_prompt(config.method, prompt_task(entry.name), config.prompts)
            rewriter = LiveRewriter(config, generator, prompt, answer_format=row.answer_format, compat=system.compat)
            yield f"{name}: {rewriter.unfinished(queries)} of {most}"
        except NotAtHand as error:
            yield f"{name}: {most}; needs {error.what}"


def _unasked(row: LanguageModelRow) -> str:
    raise StageError("plan", f"language model {row.name!r}", "a plan asks no model anything")


def _distinct(stages: Sequence[FirstStage]) -> list[FirstStage]:
    """Return one stage of each group that shares terms or vectors."""
    return list({(type(stage), stage.prepared_as): stage for stage in stages}.values())
