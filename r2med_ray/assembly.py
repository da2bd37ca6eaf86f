"""Builds systems out of Ray's parts: shard actors, encoders, a served reranker. What it starts, it ends.

Nothing is started for a run or a score that the store already has.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from r2med_ray.artifacts import ArtifactStore, fingerprint
from r2med_ray.capacity import Pools
from r2med_ray.distributed.encode import Encoding, Questions, encode_corpora, encode_queries
from r2med_ray.distributed.lexical import open_lexical, tokenize_corpora
from r2med_ray.distributed.progress import StageReport
from r2med_ray.distributed.search import ShardedRetriever
from r2med_ray.distributed.vectors import open_vectors
from r2med_ray.models.catalog import Catalog
from r2med_ray.models.devices import prepare_worker
from r2med_ray.models.pair_scorers import build_pair_scorer, scoring_inputs
from r2med_ray.models.rows import RerankerRow
from r2med_ray.pipeline import System
from r2med_ray.protocols import PairScorer, Reranker, Retriever
from r2med_ray.retrieval.stored import StoredReranker, StoredRetriever
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.serving.clients import ServedReranker
from r2med_ray.serving.reranker_app import serve_pair_scorer
from r2med_ray.systems import DenseStage, FirstStage, LexicalStage, ResolvedBenchmark, ResolvedSystem
from r2med_ray.types import Query, Task

StageT = TypeVar("StageT", bound=FirstStage, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[StageT]):
    """A first stage and the queries that it has not answered yet."""

    task: Task
    stage: StageT
    queries: tuple[Query, ...]


class Assembly:
    """The parts of a benchmark's systems on a cluster; a context that closes what it opened.

    Args:
        benchmark: with all its names looked up.
        store: where artefacts are kept; every worker must reach it.
        pools: what each stage reserves.
    """

    def __init__(self, benchmark: ResolvedBenchmark, store: ArtifactStore, pools: Pools) -> None:
        self._benchmark = benchmark
        self._resources = benchmark.config.resources
        self._store = store
        self._pools = pools
        self._open: dict[str, ShardedRetriever[Any]] = {}
        self._servers = ExitStack()
        self._served: dict[str, Reranker] = {}

    def __enter__(self) -> "Assembly":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._servers.close()

    def system(self, task: Task, system: ResolvedSystem) -> System:
        """Return a system's parts for one task; none of them is running yet."""
        config = system.config
        rewriter = (
            ReplayRewriter(config.rewriter, folder=task.folder, compat=system.compat) if config.rewriter else None
        )
        return System(
            name=system.name,
            depth=self._benchmark.config.depth,
            retrievers=tuple(self._retriever(task, stage) for stage in system.first_stages),
            fusion=config.fusion,
            rewriter=rewriter,
            reranker=self._reranker(system.reranker) if system.reranker else None,
            rerank_depth=config.reranker.depth if config.reranker else 0,
            keep_below=system.compat != "r2med",
        )

    def unanswered(self, task: Task, resolved: ResolvedSystem, system: System) -> list[Asked[FirstStage]]:
        """Return what the first stages of a system still have to search for."""
        queries = system.rewriter.rewrite(task.queries).queries if system.rewriter else task.queries
        return [
            Asked(task=task, stage=stage, queries=queries)
            for stage, retriever in zip(resolved.first_stages, system.retrievers, strict=True)
            if isinstance(retriever, StoredRetriever) and not retriever.is_stored(queries, k=system.depth)
        ]

    def prepare(self, asked: Sequence[Asked[FirstStage]]) -> list[tuple[str, str, StageReport]]:
        """ENCODE and INDEX what the unanswered searches need; every model is loaded once for all tasks.

        Returns:
            (stage, unit, what was done) in the order of the work.
        """
        done: list[tuple[str, str, StageReport]] = []
        timeout = self._resources.no_progress_timeout_s
        for of_terms in _grouped(asked, LexicalStage):
            compat = of_terms[0].stage.compat
            report = tokenize_corpora(
                self._store, _tasks(of_terms), compat, self._pools.tokenize, no_progress_timeout_s=timeout
            )
            done.append(("tokenize", of_terms[0].stage.label, report))
        for of_encoder in _grouped(asked, DenseStage):
            stage, tasks = of_encoder[0].stage, _tasks(of_encoder)
            encoding = self._encoding(stage)
            report = encode_corpora(self._store, encoding, tasks, self._pools.encode, no_progress_timeout_s=timeout)
            done.append(("encode", stage.label, report))
            questions = [
                Questions(task=item.task, queries=item.queries, compat=item.stage.compat) for item in of_encoder
            ]
            report = encode_queries(self._store, encoding, questions, self._pools.encode)
            done.append(("encode queries", stage.label, report))
        return done

    def release(self) -> None:
        """End the shard actors."""
        for retriever in self._open.values():
            retriever.close()
        self._open = {}

    def _retriever(self, task: Task, stage: FirstStage) -> StoredRetriever:
        inputs = stage.inputs(task, self._pools.encode.device)
        return StoredRetriever(
            stage.label, self._store, inputs, partial(self._opened, fingerprint(inputs), task, stage)
        )

    def _opened(self, key: str, task: Task, stage: FirstStage) -> Retriever:
        """Start the shard actors of a first stage, or return those that are running."""
        if key not in self._open:
            drop = stage.drop_identical_ids
            if isinstance(stage, LexicalStage):
                self._open[key] = open_lexical(
                    self._store, task, stage.row, stage.compat, self._pools.search, drop_identical_ids=drop
                )
            else:
                self._open[key] = open_vectors(
                    self._store,
                    self._encoding(stage),
                    task,
                    stage.index,
                    stage.compat,
                    self._pools.search,
                    drop_identical_ids=drop,
                )
        return self._open[key]

    def _reranker(self, row: RerankerRow) -> Reranker:
        inputs = scoring_inputs(row, self._benchmark.catalog, device=self._pools.rerank.device)
        return StoredReranker(self._store, inputs, partial(self._serving, row))

    def _serving(self, row: RerankerRow) -> Reranker:
        """Start a reranker's Serve application, or return the client of the one that is running."""
        if row.name not in self._served:
            resources, pool = self._resources.rerank, self._pools.rerank
            build = partial(
                _build_scorer, row, self._benchmark.catalog, pool.device, resources.token_budget, pool.threads
            )
            application = f"r2med-{self._benchmark.config.name}-{row.name}"
            handle = self._servers.enter_context(
                serve_pair_scorer(application, build, resources, cpus=pool.cpus, gpus=pool.gpus)
            )
            self._served[row.name] = ServedReranker(handle, resources)
        return self._served[row.name]

    def _encoding(self, stage: DenseStage) -> Encoding:
        budget = self._resources.encode.token_budget
        return Encoding(row=stage.row, device=self._pools.encode.device, token_budget=budget)


S = TypeVar("S", LexicalStage, DenseStage)


def _grouped(asked: Sequence[Asked[FirstStage]], kind: type[S]) -> list[list[Asked[S]]]:
    """Return what is asked of one kind of first stage, together where it needs the same terms or vectors."""
    groups: dict[str, list[Asked[S]]] = {}
    for item in asked:
        if isinstance(item.stage, kind):
            groups.setdefault(item.stage.prepared_as, []).append(cast(Asked[S], item))
    return list(groups.values())


def _tasks(asked: Sequence[Asked[S]]) -> list[Task]:
    return list({item.task.name: item.task for item in asked}.values())


def _build_scorer(row: RerankerRow, catalog: Catalog, device: str, token_budget: int, threads: int) -> PairScorer:
    prepare_worker(threads)
    return build_pair_scorer(row, catalog, device=device, token_budget=token_budget)
