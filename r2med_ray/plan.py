"""What a benchmark will do: systems × tasks, what is stored, what is missing, what each stage will reserve.

Reads the store and the task files; writes nothing and starts nothing.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from r2med_ray.capacity import ClusterCapacity, Pools
from r2med_ray.corpus.catalog import TaskRow, resolve_tasks
from r2med_ray.corpus.convert import corpus_key, load_corpus
from r2med_ray.corpus.loading import read_task_queries
from r2med_ray.corpus.sources import TaskSource, data_folder, is_cached
from r2med_ray.errors import DataError, NotAtHand, StageError
from r2med_ray.models.at_hand import ModelsAtHand
from r2med_ray.models.catalog.llm_reranker_rows import LlmRerankerRow
from r2med_ray.models.catalog.llm_rows import LanguageModelRow
from r2med_ray.models.catalog.rows import Row
from r2med_ray.models.services.api_calls import find_key
from r2med_ray.models.services.chat import ServedModel
from r2med_ray.reporting.missing import Missing, needs
from r2med_ray.reporting.record import MissingRecord
from r2med_ray.rewriting.generations import StoredGenerator
from r2med_ray.rewriting.live import LiveRewriter
from r2med_ray.rewriting.methods import spelled
from r2med_ray.rewriting.prompts import load_prompt
from r2med_ray.rewriting.published_generations import GENERATIONS
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.settings.config import TaskConfig
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem, prompt_task
from r2med_ray.types import Corpus

NOT_HERE = "not on this machine; the run asks the Hub for data, published texts and checkpoints"


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
    """What is not on this machine and of which kind, with what waits for it."""

    keys: tuple[str, ...]
    """The environment variables with keys of services: whether each is set, and which models are asked with it."""

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
            *([NOT_HERE] if self.needs else []),
            *(f"  {line}" for line in self.needs),
            *(["keys of services, from the environment"] if self.keys else []),
            *(f"  {line}" for line in self.keys),
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
        rows = [row for system in self.benchmark.systems for row in _rows(self.benchmark, system)]
        each = {row.name: row for row in rows if isinstance(row, LanguageModelRow) and row.is_served}
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
        keys=tuple(_keys(benchmark)),
    )


def _not_here(benchmark: ResolvedBenchmark) -> list[MissingRecord]:
    """Return what this machine lacks of tasks, generated texts and models, without the keys; the Hub is not asked."""
    missing = Missing("skip")
    folders: dict[str, Path] = {}
    for entry in benchmark.tasks:
        with missing.noted(entry.name, [system.name for system in benchmark.systems]), _of_kind("data"):
            folders[entry.name] = find_task(entry, download=False).folder
    for entry, system in product(benchmark.tasks, benchmark.systems):
        rewriter = system.config.rewriter
        if rewriter and rewriter.generations:
            fetch = _published(entry, is_here=entry.name in folders)
            is_known = fetch and f"{spelled(rewriter.method)}/{spelled(rewriter.generations)}" in GENERATIONS
            kind = "published texts" if is_known else "texts that were never published,"
            with missing.noted(entry.name, [system.name]), _of_kind(kind):
                ReplayRewriter(rewriter, folder=folders.get(entry.name, data_folder(entry.name)), fetch=fetch)
    models = ModelsAtHand(benchmark.catalog, memory_gb=None, device="cpu", ask_hub=False)
    for system, entry in product(benchmark.systems, benchmark.tasks):
        for row in _rows(benchmark, system):
            if isinstance(row, Row) and _is_set(getattr(row, "key_variable", None)):
                with missing.noted(entry.name, [system.name]), _of_kind(f"model {row.name}:"):
                    models.require(row)
    return missing.records


@contextlib.contextmanager
def _of_kind(kind: str) -> Iterator[None]:
    try:
        yield
    except NotAtHand as error:
        raise NotAtHand(f"{kind} {error.what}", str(error)) from error


def _published(entry: TaskRow | TaskConfig, *, is_here: bool) -> Callable[[str], Path] | None:
    """Return what takes the place of fetching a task's published texts; None where there are none.

    Args:
        entry: the task.
        is_here: whether its data is on this machine; texts of a task whose data isn't are no news.
    """
    if isinstance(entry, TaskConfig) or entry.repository is None:
        return None
    repo, revision = entry.repository, entry.revision

    def find(file: str) -> Path:
        if is_here and not is_cached(repo, revision, file):
            raise NotAtHand(file)
        return Path(file)

    return find


def _keys(benchmark: ResolvedBenchmark) -> Iterator[str]:
    """Yield each environment variable with a key of a service, whether it is set, and who needs it; never the key."""
    models: dict[str, dict[str, None]] = {}
    for system in benchmark.systems:
        for row in _rows(benchmark, system):
            if isinstance(row, Row) and (variable := getattr(row, "key_variable", None)):
                models.setdefault(variable, {})[row.name] = None
    for variable, names in models.items():
        yield f"{variable}: {'set' if _is_set(variable) else 'not set'}; for {', '.join(names)}"


def _is_set(variable: str | None) -> bool:
    """Return whether a row's key is there; one that needs none has what it needs."""
    return variable is None or bool(find_key(variable))


def _rows(benchmark: ResolvedBenchmark, system: ResolvedSystem) -> Iterator[object]:
    """Yield the rows of all that a system has work for it; of a reranker that asks a language model, that model's."""
    yield from (stage.row for stage in (*system.first_stages, system.tool) if stage)
    for row in (system.language_model, system.reranker):
        yield benchmark.catalog.language_models[row.language_model] if isinstance(row, LlmRerankerRow) else row


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
