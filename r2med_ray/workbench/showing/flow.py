"""Leads a system as far as the store answers, and notes what was demanded on the way. Nothing is done and written."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from r2med_ray.demands import Ask, Demand, Expect, Find, Recall, Score, Steps
from r2med_ray.errors import R2MedError
from r2med_ray.pipeline import rank
from r2med_ray.protocols import Scorer
from r2med_ray.reranking.stored_scores import KIND as ORDERS
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedSystem
from r2med_ray.types import Query, QueryId, Run, Task
from r2med_ray.workbench.driver import Driver
from r2med_ray.workbench.parts import Part
from r2med_ray.workbench.runner import Runner
from r2med_ray.workbench.task_sources import published_here
from r2med_ray.workbench.worklog import Worklog

T = TypeVar("T")


@dataclass(slots=True)
class Noted:
    """A demand, and its answer if the store has it."""

    demand: Demand
    is_rewriting: bool
    """Whether the query is still being rewritten."""

    answer: Any = None

    @property
    def waits(self) -> bool:
        """Whether work would be needed for its answer."""
        return self.answer is None and isinstance(self.demand, Find | Ask | Score)


@dataclass(slots=True)
class Flow:
    """What a system demanded, in order."""

    notes: list[Noted] = field(default_factory=list)
    device: str = ""
    """What the encoders computed on whose answers are stored."""

    stops: str = ""
    """Why the flow went no further; empty if it came to its end."""

    @property
    def num_answered(self) -> int:
        """How many searches, scores and requests the store answers."""
        return sum(isinstance(each.demand, Find | Ask | Score) and not each.waits for each in self.notes)

    def asks(self, *, rewriting: bool) -> list[Ask]:
        """Return the requests to language models."""
        return [each.demand for each in self.notes if isinstance(each.demand, Ask) and each.is_rewriting == rewriting]

    def searches(self, query_id: QueryId, *, rewriting: bool) -> list[tuple[Find, Query, Run | None]]:
        """Return the searches for one query, each once: what is demanded, the query with its texts, the answer."""
        found: dict[tuple[object, Query], tuple[Find, Query, Run | None]] = {}
        for each in self.notes:
            if isinstance(each.demand, Find) and each.is_rewriting == rewriting:
                for query in each.demand.queries:
                    if query.query_id == query_id:
                        found.setdefault((each.demand.first_stage, query), (each.demand, query, each.answer))
        return list(found.values())

    def candidates(self, query_id: QueryId, scorer: Scorer) -> list[str] | None:
        """Return the ids of the documents whose pairs with a query a scorer scores; None if they aren't known."""
        for each in self.notes:
            if isinstance(each.demand, Score) and each.demand.scorer is scorer:
                for query, documents, _ in each.demand.candidates:
                    if query.query_id == query_id:
                        return [document.doc_id for document in documents]
        return None


def lead(store: ArtifactStore, runner: Runner, task: Task, system: ResolvedSystem) -> Flow:
    """Lead a system over the stored answers.

    What a reranking language model has ordered before is passed over, so that its prompts are demanded; the answers
    to them are stored. So are an agent's, but not what it found between them: only its first request is shown then.

    Args:
        store: answers.
        runner: says what names the answers; nothing is run.
        task: the task.
        system: the system.
    """
    flow = _lead(store, runner, task, system, lambda recall: all(key.kind == ORDERS for key in recall.keys))
    if system.config.rewriter and system.config.rewriter.agent and not flow.asks(rewriting=True):
        anew = _lead(store, runner, task, system, lambda recall: True)
        flow.notes[:0] = [each for each in anew.notes if each.is_rewriting]
    return flow


def furthest(store: ArtifactStore, runners: Iterable[Runner], task: Task, system: ResolvedSystem) -> Flow:
    """Return the flow that gets furthest: what is stored may have been computed on another device than this one's."""
    return max((lead(store, runner, task, system) for runner in runners), key=lambda flow: flow.num_answered)


def _lead(
    store: ArtifactStore,
    runner: Runner,
    task: Task,
    system: ResolvedSystem,
    passes_over: Callable[[Recall], bool],
) -> Flow:
    flow = Flow(device=runner.device)
    driver = Driver(store, runner, Worklog(), published_here)
    steps = _noting(rank(task, system, device=runner.device), flow.notes, passes_over)
    try:
        ended = driver.stored(Part(f"{system.name} on {task.name}", steps))
    except R2MedError as error:
        flow.stops = f"the run would stop here: {error}"
    else:
        if ended is None:
            waits = next((each.demand for each in flow.notes if each.waits), None)
            flow.stops = f"the rest depends on {_words(waits)}, which the store doesn't have: run the benchmark first"
    return flow


def _noting(steps: Steps[T], notes: list[Noted], passes_over: Callable[[Recall], bool]) -> Steps[T]:
    """Pass demands and answers on, and note them."""
    is_rewriting = True
    go_on: Callable[[], Demand | tuple[Demand, ...]] = partial(next, steps)
    while True:
        try:
            demanded = go_on()
        except StopIteration as end:
            result: T = end.value
            return result
        demands = demanded if isinstance(demanded, tuple) else (demanded,)
        if isinstance(demanded, Expect):
            is_rewriting = bool(demanded.searches)
        if isinstance(demanded, Recall) and passes_over(demanded):
            go_on = partial(steps.send, [None] * len(demanded.keys))
            continue
        noted = [Noted(demand, is_rewriting) for demand in demands]
        notes += noted
        try:
            answer = yield demanded
        except R2MedError as error:
            go_on = partial(steps.throw, error)
            continue
        for each, value in zip(noted, answer if isinstance(demanded, tuple) else [answer], strict=True):
            each.answer = value
        go_on = partial(steps.send, answer)


def _words(demand: Demand | None) -> str:
    match demand:
        case Find():
            return f"a search with {demand.first_stage.label}"
        case Ask():
            return f"texts of {demand.model.name}"
        case Score():
            return f"scores of {demand.scorer.name}"
    return "an answer"
