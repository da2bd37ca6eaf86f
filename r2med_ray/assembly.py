"""Builds systems out of Ray's parts: shard actors, encoders, a served reranker. What it starts, it ends.

Nothing is started for a run or a score that the store already has.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

from r2med_ray.capacity import CPUS_FOR_READING, ClusterCapacity, Pools
from r2med_ray.distributed.first_stages import FirstStages
from r2med_ray.distributed.progress import StageReport
from r2med_ray.distributed.side_by_side import side_by_side
from r2med_ray.distributed.stage_parts import Asked, Done, RunningRetriever, Workplace
from r2med_ray.language_parts import LanguageParts
from r2med_ray.models.at_hand import ModelsAtHand
from r2med_ray.models.catalog.catalog import Catalog
from r2med_ray.models.catalog.devices import prepare_worker
from r2med_ray.models.catalog.llm_reranker_rows import LlmRerankerRow
from r2med_ray.models.catalog.llm_rows import LanguageModelRow
from r2med_ray.models.catalog.reranker_rows import RerankerRow
from r2med_ray.models.networks.pair_scorers import build_pair_scorer, scoring_inputs
from r2med_ray.pipeline import System
from r2med_ray.protocols import PairScorer, QueryRewriter, Reranker, Retriever
from r2med_ray.retrieval.query_construction import searches_of
from r2med_ray.retrieval.stored import StoredReranker, StoredRetriever
from r2med_ray.rewriting.agents.search_agents import SearchAgent
from r2med_ray.rewriting.live import LiveRewriter
from r2med_ray.serving.clients import ServedReranker
from r2med_ray.serving.language_models import LanguageModels
from r2med_ray.serving.reranker_app import serve_pair_scorer
from r2med_ray.serving.serve_session import application_name
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.stages.lexical import LexicalStage
from r2med_ray.storage.artifacts import ArtifactStore, fingerprint
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem
from r2med_ray.types import Query, Run, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A system built for a task."""

    task: Task
    resolved: ResolvedSystem
    system: System
    unwritten: int
    """Texts that a language model has yet to write for it."""


class Assembly:
    """The parts of a benchmark's systems on a cluster; a context that closes what it opened.

    Args:
        benchmark: with all its names looked up.
        store: where artefacts are kept; every worker must reach it.
        pools: what each stage reserves.
        capacity: what the cluster has, for models whose size their row says.
        models: asked for each model before it has to work; None asks nobody.
    """

    def __init__(
        self,
        benchmark: ResolvedBenchmark,
        store: ArtifactStore,
        pools: Pools,
        capacity: ClusterCapacity,
        models: ModelsAtHand | None = None,
    ) -> None:
        self._benchmark = benchmark
        self._resources = benchmark.config.resources
        self._store = store
        self._pools = pools
        self._encoder = replace(pools.encode, cpus=pools.encode.cpus + CPUS_FOR_READING)
        self._models = models
        self._stop = threading.Event()
        self._stages = FirstStages(Workplace(store=store, pools=pools, resources=self._resources, stop=self._stop))
        self._open: dict[str, RunningRetriever] = {}
        self._servers = ExitStack()
        self._served: dict[str, Reranker] = {}
        self._language_models = LanguageModels(
            benchmark.config.name,
            self._resources.language_model,
            pools,
            capacity,
            self._make_room_for_language_model,
            self._stop,
        )
        self._language = LanguageParts(
            benchmark.catalog, store, self._language_models, self._search, device=pools.encode.device
        )

    def __enter__(self) -> "Assembly":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._language_models.release()
        self._end_scorers()

    def assembled(self, task: Task, resolved: ResolvedSystem) -> Assembled:
        """Return a system's parts for one task, and what they wait for.

        Raises:
            NotAtHand: a language model that has to write for it is not here, or a model that would search for that or
                use its texts.
        """
        system = self.system(task, resolved)
        rewriter = system.rewriter
        unwritten = rewriter.unfinished(task.queries) if isinstance(rewriter, LiveRewriter | SearchAgent) else 0
        self.release()
        if unwritten:
            # What LameR's search needs was asked for with the search, which is done.
            tool = resolved.tool if isinstance(rewriter, SearchAgent) else None
            searches = [stage.row for stage in (*resolved.first_stages, tool) if stage]
            for row in (resolved.language_model, *searches, resolved.reranker):
                self._require(row)
        return Assembled(task=task, resolved=resolved, system=system, unwritten=unwritten)

    def system(self, task: Task, system: ResolvedSystem) -> System:
        """Return a system's parts for one task; none of them is running yet."""
        config = system.config
        return System(
            name=system.name,
            depth=self._benchmark.config.depth,
            retrievers=tuple(self._retriever(task, stage) for stage in system.first_stages),
            fusion=config.fusion,
            rewriter=self._language.rewriter(task, system),
            combine=config.rewriter.combine if config.rewriter else "mean",
            reranker=self._reranker(system.reranker) if system.reranker else None,
            rerank_depth=config.reranker.depth if config.reranker else 0,
            max_unusable=config.reranker.max_unusable if config.reranker else 1.0,
            keep_below=system.compat != "r2med",
        )

    def rewrite(self, work: Sequence[Assembled]) -> list[Done]:
        """REWRITE: have all texts written that are not stored yet, then end the models that wrote them.

        Texts of all tasks that need no search are one stream per language model. Where the cluster has room for both,
        what the searches will need of the corpora is encoded meanwhile, and whichever fails first stops the other.
        LameR's are a stream once its candidates are found, and then each turn of the agents. With that room, models
        stay where a language model will rerank.

        Returns:
            (stage, unit, what was done) in the order of the work.
        """
        unwritten = [item for item in work if item.unwritten]
        if not unwritten:
            return []
        began = time.monotonic()
        searching = [item for item in unwritten if item.resolved.tool]
        at_once = [_writing(item) for item in unwritten if not item.resolved.tool]
        tools = [(item.task, item.resolved.tool) for item in searching if item.resolved.tool]
        first_stages = [(item.task, stage) for item in unwritten for stage in item.resolved.first_stages]
        done: list[Done] = []
        fits = self._fit(encoders=1)
        if fits:
            done += side_by_side(
                partial(self._prepare_corpora, [*tools, *first_stages]),
                partial(self._language.write, at_once),
                self._stop,
            )
        else:
            done += self._prepare_corpora(tools)
            self._language.write(at_once)
        for ask in (self._language.write, self._language.lead):
            ask([_writing(item) for item in searching])
            self.release()
        if not (fits and any(isinstance(item.resolved.reranker, LlmRerankerRow) for item in work)):
            self._language_models.release()
        texts = sum(item.unwritten for item in unwritten)
        report = StageReport(documents=texts, stored_before=0, seconds=time.monotonic() - began)
        return [*done, ("rewrite", f"{texts} texts", report)]

    def unanswered(self, item: Assembled) -> list[Asked[FirstStage]]:
        """Return what the first stages of a system still have to search for.

        Raises:
            NotAtHand: a model that would have to work for it is not here.
        """
        task, resolved, system = item.task, item.resolved, item.system
        rewritten = system.rewriter.rewrite(task.queries).queries if system.rewriter else task.queries
        asked = [
            Asked(task=task, stage=stage, queries=queries)
            for stage, retriever in zip(resolved.first_stages, system.retrievers, strict=True)
            for queries in searches_of(rewritten, system.combine)
            if isinstance(retriever, StoredRetriever) and not retriever.is_stored(queries, k=system.depth)
        ]
        for stage in [first.stage for first in asked]:
            self._require(stage.row)
        if asked:
            self._require(resolved.reranker)
        return asked

    def prepare(self, asked: Sequence[Asked[FirstStage]]) -> list[Done]:
        """ENCODE and INDEX what the unanswered searches need; every model is loaded once for all tasks.

        Returns:
            (stage, unit, what was done) in the order of the work.
        """
        return self._stages.prepare(asked)

    def release(self) -> None:
        """End the shard actors."""
        for retriever in self._open.values():
            retriever.close()
        self._open = {}

    def _search(self, task: Task, stage: FirstStage, queries: Sequence[Query], depth: int) -> Run:
        """Answer questions that a language model has, or is shown the answers of."""
        retriever = self._retriever(task, stage)
        if not retriever.is_stored(queries, k=depth):
            self._require(stage.row)
            if not isinstance(stage, LexicalStage):
                self._make_room_for_encoder()
            self._stages.prepare([Asked(task=task, stage=stage, queries=tuple(queries))])
        return retriever.retrieve(queries, k=depth)

    def _prepare_corpora(self, wanted: Sequence[tuple[Task, FirstStage]]) -> list[Done]:
        return self._stages.prepare([Asked(task=task, stage=stage, queries=()) for task, stage in wanted])

    def _require(self, row: object) -> None:
        if isinstance(row, LlmRerankerRow):
            self._require(self._benchmark.catalog.language_models[row.language_model])
        if self._models:
            self._models.require(row)
        if isinstance(row, LanguageModelRow):
            self._language_models.require(row)

    def _retriever(self, task: Task, stage: FirstStage) -> StoredRetriever:
        inputs = stage.inputs(task, self._pools.encode.device)
        return StoredRetriever(
            stage.label, self._store, inputs, partial(self._opened, fingerprint(inputs), task, stage)
        )

    def _opened(self, key: str, task: Task, stage: FirstStage) -> Retriever:
        """Start the shard actors of a first stage, or return those that are running."""
        if key not in self._open:
            if not self._fit(retrievers=len(self._open) + 1, scorers=len(self._served)):
                self.release()
            self._open[key] = self._stages.open(task, stage)
        return self._open[key]

    def _reranker(self, row: RerankerRow | LlmRerankerRow) -> Reranker:
        if isinstance(row, LlmRerankerRow):
            return self._language.reranker(row, self._require)
        inputs = scoring_inputs(row, self._benchmark.catalog, device=self._pools.rerank.device)
        return StoredReranker(self._store, inputs, partial(self._serving, row))

    def _serving(self, row: RerankerRow) -> Reranker:
        """Start a reranker's Serve application, or return the client of the one that is running."""
        digest = fingerprint(row.model_dump(mode="json"))  # `compat` makes two rows of one name
        application = application_name(self._benchmark.config.name, row.name, digest)
        if application not in self._served:
            self._require(row)
            resources, pool = self._resources.rerank, self._pools.rerank
            build = partial(
                _build_scorer, row, self._benchmark.catalog, pool.device, resources.token_budget, pool.threads
            )
            self._make_room_for_scorer()
            self._language_models.start_proxy()
            handle = self._servers.enter_context(
                serve_pair_scorer(application, build, resources, cpus=pool.cpus, gpus=pool.gpus)
            )
            self._served[application] = ServedReranker(handle, resources)
        return self._served[application]

    def _make_room_for_encoder(self) -> None:
        if not self._fit(retrievers=len(self._open), scorers=len(self._served), encoders=1):
            self.release()
        if not self._fit(scorers=len(self._served), encoders=1):
            self._language_models.release()
            self._end_scorers()

    def _make_room_for_scorer(self) -> None:
        self.release()  # what is to be reranked has been searched for
        if not self._fit(retrievers=1, scorers=len(self._served) + 1):
            self._language_models.release()
            self._end_scorers()

    def _make_room_for_language_model(self) -> None:
        self.release()
        if not self._fit(retrievers=1, scorers=len(self._served)):
            self._end_scorers()

    def _fit(self, *, retrievers: int = 0, scorers: int = 0, encoders: int = 0) -> bool:
        """Say whether so many first stages, served scorers and encoding actors fit beside the language models."""
        search, rerank, encode = self._pools.search, self._pools.rerank, self._encoder
        parts = [(retrievers * search.actors, search), (scorers * rerank.actors, rerank), (encoders, encode)]
        return self._language_models.fit_beside(
            cpus=sum(count * pool.cpus for count, pool in parts), gpus=sum(count * pool.gpus for count, pool in parts)
        )

    def _end_scorers(self) -> None:
        self._servers.close()
        self._served = {}


def _writing(item: Assembled) -> tuple[Task, QueryRewriter]:
    """Return who has to write texts, and for what."""
    assert item.system.rewriter is not None
    return item.task, item.system.rewriter


def _build_scorer(row: RerankerRow, catalog: Catalog, device: str, token_budget: int, threads: int) -> PairScorer:
    prepare_worker(threads)
    return build_pair_scorer(row, catalog, device=device, token_budget=token_budget)
