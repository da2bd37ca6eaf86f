"""Does the work of a workbench in this process: everything serial, no Ray, no server."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

from r2med_ray.activity import doing
from r2med_ray.blame import made_or_blamed
from r2med_ray.chat import LanguageModel, TextGenerator
from r2med_ray.errors import NotAtHand
from r2med_ray.first_stage import Computing, FirstStage, ShardedFirstStage
from r2med_ray.first_stages.bad_documents import held_bytes
from r2med_ray.first_stages.checkpoints import Asked, LateInteractionFirstStage
from r2med_ray.first_stages.making import failing_as
from r2med_ray.first_stages.measuring_dtypes import fastest_here, measuring
from r2med_ray.first_stages.preparation import STAGES, Corpora, Questions, maker_label
from r2med_ray.first_stages.stored_speed import score_timed
from r2med_ray.models.catalog.devices import best_device
from r2med_ray.models.catalog.fastest import FastestDtype
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.load import Catalog
from r2med_ray.models.networks.pair_scorers import build_pair_scorer, scoring_inputs
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.protocols import PairScorer, Scorer
from r2med_ray.reranking.pair_requests import PairRequest
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.sentences import Shares
from r2med_ray.settings.pools import Pool
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task
from r2med_ray.workbench.catalog_rows import language_model_row, reranker_row
from r2med_ray.workbench.in_process import InProcess, PlainIndex
from r2med_ray.workbench.ledger import Need, are_held
from r2med_ray.workbench.probing import Probe
from r2med_ray.workbench.side_by_side import side_by_side
from r2med_ray.workbench.worklog import Worklog

T = TypeVar("T")

ONE = Need(cpus=1)
"""All that there is. What computes reserves it, so one thing is done after the other."""


class LocalRunner:
    """Fulfils `runner.Runner` in this process.

    Args:
        catalog: has the models.
        store: where artefacts are kept.
        resources: token budgets; what they say of actors and replicas has no meaning here.
        worklog: gets what was done.
        device: what encoders compute on; the best that this machine has if left out.
    """

    def __init__(
        self,
        catalog: Catalog,
        store: ArtifactStore,
        resources: ResourcesConfig,
        worklog: Worklog,
        *,
        device: str | None = None,
    ) -> None:
        self.stop = threading.Event()
        self.begins_at_the_end = False
        self.measures = True
        self.capacity = ONE
        self.searches_at_once = 1
        self._catalog = catalog
        self._resources = resources
        self._worklog = worklog
        self._store = store
        self._device = device

    @cached_property
    def device(self) -> str:
        return self._device or best_device()

    @property
    def gpu(self) -> str | None:
        return None

    def workers(self, stage: Literal["encode", "tokenize", "rerank"]) -> Pool:
        return Pool(actors=1, cpus=os.cpu_count() or 1, gpus=float(self.device == "cuda"))

    def describe(self) -> str:
        return "this process, which does one thing after the other"

    def reservations(
        self, first_stages: Iterable[FirstStage], scorers: Iterable[Scorer], models: Iterable[LanguageModel]
    ) -> Iterator[str]:
        yield from ()

    def preparing(self, first_stage: ShardedFirstStage) -> Need:
        return ONE

    def searching(self, task: Task, first_stage: ShardedFirstStage) -> Need:
        return Need()

    def scoring(self, scorer: Scorer) -> Need:
        return Need()

    def writing(self, model: LanguageModel) -> Need:
        return ONE

    def engine(self, model: LanguageModel) -> str:
        row = language_model_row(model)
        return f"{row.name} at {row.base_url}"

    def scoring_inputs(self, scorer: Scorer) -> Mapping[str, Any]:
        return scoring_inputs(reranker_row(scorer), self._catalog, device=self.device)

    def require(self, row: object) -> None:
        """Refuse a language model that would have to be served.

        Raises:
            NotAtHand: a cluster serves it, or its row needs the address of a service.
        """
        if isinstance(row, LanguageModelRow) and row.is_served:
            raise NotAtHand(
                f"a cluster for {row.name}",
                f"language model {row.name!r} has to be served on a cluster, and this workbench has none: open "
                "it with an `address`, e.g. `local`, or give the model the `base_url` of a service",
            )

    def prepare(self, corpora: Corpora, sets: Questions) -> None:
        if corpora:
            first_stage = corpora[0][1]
            probe = Probe(first_stage=first_stage, pool=self.workers("encode"), gpu=None, cpus=os.cpu_count() or 1)
            prepare = partial(self._work.prepare_shards, from_the_end=self.begins_at_the_end, stop=self.stop)
            report = self._apart(partial(prepare, corpora, judge=probe))
            self._worklog.note(STAGES[first_stage.work], maker_label(first_stage), report, first_stage.cost)
        if sets:
            first_stage = sets[0].first_stage
            asked = self._apart(partial(self._work.prepare_queries, sets))
            if asked is not None:
                self._worklog.note("encode queries", maker_label(first_stage), asked, first_stage.cost)

    def fastest(self, first_stage: ShardedFirstStage) -> FastestDtype:
        with failing_as("encode", measuring(first_stage)):
            return fastest_here(self._store, first_stage, self._computing)

    def sentence_shares(self, first_stage: LateInteractionFirstStage, asked: Sequence[Asked]) -> list[list[Shares]]:
        with failing_as("explain", first_stage.label):
            return first_stage.sentence_shares(self._store, asked, self._computing)

    def open_index(self, task: Task, first_stage: ShardedFirstStage) -> PlainIndex:
        num_bytes = held_bytes(self._store, first_stage, task, self.device)
        return self._work.open_index(task, first_stage, one_at_a_time=not self.holds_shards(num_bytes))

    def holds_shards(self, held_bytes: int) -> bool:
        memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        return are_held(self._resources.search.held_shards, held_bytes, memory_gb)

    @property
    def pair_budget(self) -> int:
        return self._resources.rerank.token_budget

    def start_scorer(self, scorer: Scorer, requests: int) -> "LocalScorer":
        row, budget = reranker_row(scorer), self.pair_budget
        return LocalScorer(
            build_pair_scorer(row, self._catalog, device=self.device, token_budget=budget), self._computing, row.name
        )

    def start_model(self, model: LanguageModel) -> "LocalModel":
        return LocalModel(self.stop)

    def _apart(self, work: Callable[[], T]) -> T:
        """Do work in a second thread: asking a service runs an event loop, and the thread of a notebook has one."""
        done: list[T] = []
        side_by_side(lambda: None, lambda: done.append(work()), self.stop)
        return done[0]

    @cached_property
    def _work(self) -> InProcess:
        return InProcess(self._store, self._computing)

    @property
    def _computing(self) -> Computing:
        return Computing.of(self._resources.encode, device=self.device, threads=os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class LocalScorer:
    """A scorer in this process."""

    scorer: PairScorer
    computing: Computing = field(default_factory=Computing)
    model: str = "reranker"

    def score(self, requests: Sequence[PairRequest]) -> Iterator[Scored]:
        """Yield the scores of each request, in the order of the requests.

        Raises:
            StageError: the scorer failed twice; names the pair that is to blame.
        """
        pairs = sum(len(request.candidates) for request in requests)
        with doing(f"rerank with {self.model}", pairs, "pairs") as activity:
            for request in requests:
                yield made_or_blamed(
                    partial(self._score, request),
                    request.names,
                    what="query and document",
                    stage="rerank",
                    unit=request.unit,
                )
                activity.add(len(request.candidates))

    def _score(self, request: PairRequest, positions: Sequence[int]) -> Scored:
        return score_timed(self.scorer, request.of(positions).pairs, self.computing)

    def close(self) -> None:
        """Hold nothing that would have to be freed."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A service elsewhere, asked from this process."""

    stop: threading.Event

    def generator(self, model: LanguageModel) -> TextGenerator:
        """Return what asks it with the sampling of a row."""
        return ChatModel(language_model_row(model), stop=self.stop)

    def close(self) -> None:
        """Hold nothing that would have to be freed."""
