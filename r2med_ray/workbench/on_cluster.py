"""Does the work of a benchmark on a Ray cluster: encoders in pools, indexes in actors, models behind Ray Serve."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Literal

from r2med_ray.chat import LanguageModel
from r2med_ray.distributed.asking_nodes import largest_gpu_gb
from r2med_ray.distributed.growing import NodeRequests
from r2med_ray.distributed.nodes import computer_of
from r2med_ray.distributed.on_a_worker import on_a_worker
from r2med_ray.distributed.preparing import pool_for, prepare
from r2med_ray.distributed.searching import open_index
from r2med_ray.distributed.session import capacity_now
from r2med_ray.errors import CapacityError, NotAtHand
from r2med_ray.first_stage import Computing, FirstStage, ShardedFirstStage
from r2med_ray.first_stages.bad_documents import held_bytes
from r2med_ray.first_stages.checkpoints import Asked, LateInteractionFirstStage
from r2med_ray.first_stages.measuring_dtypes import fastest_here, measuring, stored_fastest
from r2med_ray.first_stages.preparation import STAGES, Corpora, Questions, maker_label
from r2med_ray.models.at_hand import ModelsAtHand
from r2med_ray.models.catalog.engine_limits import require_fit
from r2med_ray.models.catalog.fastest import FastestDtype
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.load import Catalog
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.sources import hub_answers
from r2med_ray.models.networks.pair_scorers import build_in_worker, scoring_inputs
from r2med_ray.protocols import Scorer
from r2med_ray.sentences import Shares
from r2med_ray.serving.clients import ServedReranker
from r2med_ray.serving.engines import engine_digest, engine_of, served_engine
from r2med_ray.serving.llm_app import Engine
from r2med_ray.serving.reranker_app import serve_pair_scorer
from r2med_ray.serving.serve_session import JobServe, application_name
from r2med_ray.settings.pools import CPUS_FOR_READING, CPUS_OF_AN_INGRESS, ClusterCapacity, Pool
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import fingerprint
from r2med_ray.types import Task
from r2med_ray.workbench.catalog_rows import language_model_row, reranker_row
from r2med_ray.workbench.ledger import Need, are_held
from r2med_ray.workbench.probing import Probe
from r2med_ray.workbench.reservations import engines_used, pools_used
from r2med_ray.workbench.served import AnsweringModel, ServedScorer, SharedIndex
from r2med_ray.workbench.sizing import require_language_model, require_reranker, shard_actors, size_pools
from r2med_ray.workbench.worklog import Worklog

SEARCHES_AT_ONCE = 8
"""Indexes that are searched at the same time. The driver merges what their shards find, one ranking after another."""


class ClusterRunner:
    """Fulfils `runner.Runner` on the cluster that this process is connected to.

    Args:
        name: the name of the benchmark. The names of its applications contain it.
        catalog: has the models.
        store: every worker must reach it.
        resources: what each stage may reserve.
        capacity: what the cluster has, or can become.
        worklog: gets what was done.
        ask_for_models: whether each model is checked before it has to work. If not, a worker finds out what it lacks.

    Raises:
        CapacityError: a stage asks for more than the cluster has.
    """

    def __init__(
        self,
        name: str,
        catalog: Catalog,
        store: ArtifactStore,
        resources: ResourcesConfig,
        capacity: ClusterCapacity,
        worklog: Worklog,
        *,
        ask_for_models: bool = False,
    ) -> None:
        self.stop = threading.Event()
        self.begins_at_the_end = False
        self.measures = True
        self.searches_at_once = SEARCHES_AT_ONCE
        self._nodes = NodeRequests()
        self.capacity = Need(cpus=capacity.cpus, gpus=capacity.gpus)
        self.pools = size_pools(resources, capacity)
        self._name, self._catalog = name, catalog
        self._store, self._resources = store, resources
        self._timeout_s = resources.no_progress_timeout_s
        self._cluster, self._worklog = capacity, worklog
        self._models = self._models_at_hand() if ask_for_models else None
        self._serve = JobServe(host=resources.language_model.host, port=resources.language_model.port)

    @property
    def device(self) -> str:
        return self.pools.encode.device

    @property
    def gpu(self) -> str | None:
        return self._cluster.accelerator

    def workers(self, stage: Literal["encode", "tokenize", "rerank"]) -> Pool:
        pool: Pool = getattr(self.pools, stage)
        return pool

    def describe(self) -> str:
        return f"{self._cluster.describe()}, by {self._cluster.source}"

    def reservations(
        self, first_stages: Iterable[FirstStage], scorers: Iterable[Scorer], models: Iterable[LanguageModel]
    ) -> Iterator[str]:
        work, has_scorers = {first_stage.work for first_stage in first_stages}, bool(list(scorers))
        if has_scorers:
            require_reranker(self.pools, self._cluster)
        yield from pools_used(self.pools, work, scores=has_scorers)
        yield from engines_used(self.pools.language_model, map(language_model_row, models))

    def preparing(self, first_stage: ShardedFirstStage) -> Need:
        """Return what one actor reserves, and the tasks that read for it."""
        pool = self._pool(first_stage)
        return Need(cpus=pool.cpus + CPUS_FOR_READING, gpus=pool.gpus)

    def searching(self, task: Task, first_stage: ShardedFirstStage) -> Need:
        """Return what the actors reserve that share the shards of a corpus."""
        return Need.of_all(self._search_pool(task))

    def scoring(self, scorer: Scorer) -> Need:
        return Need.of_all(self.pools.rerank)

    def writing(self, model: LanguageModel) -> Need:
        row = language_model_row(model)
        if not row.is_served:
            return Need()
        engine = self._engine(row)
        workers = engine.min_workers
        return Need(cpus=workers * engine.cpus + CPUS_OF_AN_INGRESS, gpus=workers * engine.gpus)

    def engine(self, model: LanguageModel) -> str:
        row = language_model_row(model)
        return engine_digest(self._engine(row)) if row.is_served else f"{row.name} at {row.base_url}"

    def scoring_inputs(self, scorer: Scorer) -> Mapping[str, Any]:
        return scoring_inputs(reranker_row(scorer), self._catalog, device=self.pools.rerank.device)

    def require(self, row: object) -> None:
        if self._models:
            self._models.require(row)
        if isinstance(row, RerankerRow):
            require_reranker(self.pools, self._cluster)
            self._serve.is_needed = True
        if isinstance(row, LanguageModelRow) and row.is_served:
            require_fit(row, memory_gb=self._memory_gb(self.pools.language_model))
            self._require_room(row)

    def prepare(self, corpora: Corpora, sets: Questions) -> None:
        if not corpora and not sets:
            return
        first_stage = corpora[0][1] if corpora else sets[0].first_stage
        what = "preparing a corpus" if corpora else "preparing queries"
        pool = self._pool(first_stage)
        with self._serve.starting(), self._nodes_for(what, replace(pool, actors=1), CPUS_FOR_READING):
            prepared = prepare(
                self._store,
                corpora,
                sets,
                self._computing(first_stage),
                pool,
                no_progress_timeout_s=self._timeout_s,
                from_the_end=self.begins_at_the_end,
                stop=self.stop,
                judge=Probe(first_stage=first_stage, pool=pool, gpu=self.gpu, cpus=self._cluster.cpus),
            )
        for stage, report in ((STAGES[first_stage.work], prepared.corpora), ("encode queries", prepared.queries)):
            if report is not None:
                self._worklog.note(stage, maker_label(first_stage), report, first_stage.cost)

    def fastest(self, first_stage: ShardedFirstStage) -> FastestDtype:
        """Have one worker answer for all; others may have other CPUs."""
        computing, pool, what = self._computing(first_stage), self._pool(first_stage), measuring(first_stage)
        if self._cluster.is_one_machine and (found := stored_fastest(self._store, first_stage, computing.threads)):
            return found
        work = partial(fastest_here, self._store, first_stage, computing)
        with self._nodes_for(what, replace(pool, actors=1)):
            return on_a_worker("encode", what, work, pool, timeout_s=self._timeout_s)

    def sentence_shares(self, first_stage: LateInteractionFirstStage, asked: Sequence[Asked]) -> list[list[Shares]]:
        computing, pool, what = self._computing(first_stage), self._pool(first_stage), first_stage.label
        work = partial(first_stage.sentence_shares, self._store, asked, computing)
        with self._nodes_for(what, replace(pool, actors=1)):
            return on_a_worker("explain", what, work, pool, timeout_s=self._timeout_s)

    def open_index(self, task: Task, first_stage: ShardedFirstStage) -> SharedIndex:
        pool = self._search_pool(task)
        one_at_a_time = not self.holds_shards(held_bytes(self._store, first_stage, task, self.device))
        open_it = partial(open_index, one_at_a_time=one_at_a_time, no_progress_timeout_s=self._timeout_s)
        with ExitStack() as stack:
            stack.enter_context(self._nodes_for(f"the index of {task.name}", pool))
            index = open_it(self._store, task, first_stage, self.device, pool)
            stack.callback(index.close)
            return SharedIndex(index, stack.pop_all())

    def holds_shards(self, held_bytes: int) -> bool:
        return are_held(self._resources.search.held_shards, held_bytes, self._cluster.memory_gb)

    @property
    def pair_budget(self) -> int:
        return self._resources.rerank.token_budget

    def start_scorer(self, scorer: Scorer, requests: int) -> ServedScorer:
        row, resources, pool = reranker_row(scorer), self._resources.rerank, self.pools.rerank
        replicas, first = pool.actors, pool
        if resources.replicas == "auto":
            replicas, first = min(pool.actors, requests), replace(pool, actors=1)
        name = application_name(self._name, row.name, fingerprint(row.model_dump(mode="json")))
        build = partial(build_in_worker, row, self._catalog, pool.device, resources.token_budget, pool.threads)
        with ExitStack() as stack:
            stack.enter_context(self._nodes_for(f"reranker {row.name}", first))
            self._serve.start()
            served = serve_pair_scorer(
                name,
                build,
                resources,
                computing=Computing(device=pool.device, threads=pool.threads),
                cpus=pool.cpus,
                gpus=pool.gpus,
                replicas=replicas,
                start_within_s=self._timeout_s,
            )
            client = ServedReranker(stack.enter_context(served), resources, row.name, replicas)
            return ServedScorer(client, stack.pop_all())

    def start_model(self, model: LanguageModel, *, is_read_along: bool = False) -> AnsweringModel:
        """Start a language model; see `llm_app.Engine.is_read_along`."""
        row = language_model_row(model)
        if not row.is_served:
            return AnsweringModel(None, ExitStack(), self.stop)
        self._require_room(row)
        engine = replace(self._engine(row), is_read_along=is_read_along)
        workers = Pool(actors=engine.min_workers, cpus=engine.cpus, gpus=engine.gpus)
        with ExitStack() as stack:
            stack.enter_context(self._nodes_for(f"language model {row.name}", workers, CPUS_OF_AN_INGRESS))
            if self._cluster.grows and engine.gpus:
                require_fit(row, memory_gb=largest_gpu_gb(capacity_now()))
            proxy = self._serve.start()
            assert proxy is not None
            served = served_engine(self._name, row, engine, proxy, start_within_s=self._timeout_s)
            address, computer = stack.enter_context(served), computer_of(engine.gpus, engine.accelerator)
            return AnsweringModel(address, stack.pop_all(), self.stop, computer)

    def _nodes_for(self, what: str, pool: Pool, beside: float = 0.0) -> AbstractContextManager[None]:
        """Return a block that begins when there are nodes for a stage; a cluster that grows is asked for them."""
        wait_s = self._cluster.wait_s
        if wait_s is None:
            return nullcontext()
        return self._nodes.held(what, pool, beside=beside, wait_s=wait_s, stop=self.stop)

    def _models_at_hand(self) -> ModelsAtHand:
        """Return what checks models before they have to work, for `when_missing: skip`."""
        memory_gb = self._memory_gb(self.pools.encode)
        return ModelsAtHand(self._catalog, memory_gb=memory_gb, device=self.device, ask_hub=hub_answers())

    def _memory_gb(self, pool: Pool) -> float | None:
        """Return the memory of the largest device that a worker may get, in GB; None if nobody knows it."""
        return self._gpu_memory_gb if pool.gpus else self._cluster.memory_gb_of_largest_node

    @cached_property
    def _gpu_memory_gb(self) -> float | None:
        return largest_gpu_gb(self._cluster)

    def _require_room(self, row: LanguageModelRow) -> None:
        engine = self._engine(row)
        try:
            require_language_model(row.name, engine.min_workers, self.pools, self._cluster)
        except CapacityError as error:
            each = f"{engine.gpus:g} GPU" if engine.gpus else f"{engine.cpus:g} CPU"
            raise NotAtHand(f"{engine.min_workers} × {each} for {row.name}", str(error)) from error
        self._serve.is_needed = self._serve.needs_http = True

    def _engine(self, row: LanguageModelRow) -> Engine:
        return engine_of(row, self.pools.language_model, self._resources.language_model)

    def _search_pool(self, task: Task) -> Pool:
        """Return the actors that share the shards of a corpus."""
        corpus = task.corpus
        return shard_actors(self.pools.search, self._resources.search, corpus.num_documents, len(corpus.shards))

    def _pool(self, first_stage: ShardedFirstStage) -> Pool:
        return pool_for(first_stage, self.pools.tokenize if first_stage.work == "tokenize" else self.pools.encode)

    def _computing(self, first_stage: ShardedFirstStage) -> Computing:
        pool = self._pool(first_stage)
        return Computing.of(self._resources.encode, device=self.device, threads=pool.threads, gpus=pool.gpus)
