"""Answers one question after the other with the systems of a benchmark, by the code that ranks the benchmark.

question → pipeline.rank, led with open indexes and running models → events of `serving.search_answers`
"""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any, Self

from r2med_ray.errors import ConfigError, DataError, R2MedError, StoppedError
from r2med_ray.first_stage import Computing
from r2med_ray.live.answers import LiveAnswers, PairScores, Running
from r2med_ray.live.open_corpora import OpenIndexes, OpenTexts
from r2med_ray.live.telling import Telling
from r2med_ray.pipeline import rank
from r2med_ray.serving.search_answers import Begun, Done, Event, Failed, SearchRequest, event
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedSystem
from r2med_ray.types import Query, Task, positives_of
from r2med_ray.workbench.parts import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What a process that searches is made of; it travels to that process."""

    store: str
    tasks: Mapping[str, Task]
    systems: Mapping[str, ResolvedSystem]
    computing: Computing
    scorers: Mapping[str, PairScores]
    """`answers.scorer_key` → what scores pairs."""

    addresses: Mapping[str, str]
    """Name of a language model that is served here → the address of its engine."""

    pair_budget: int


class Searcher:
    """Fulfils `search_app.Answering`.

    Args:
        searched: tasks, systems and what runs for them.
        scratch: a folder for what is made of questions.

    Raises:
        ArtifactError: something of a corpus is not stored.
    """

    def __init__(self, searched: Searched, scratch: TemporaryDirectory[str]) -> None:
        store = ArtifactStore(searched.store)
        self._searched = searched
        self._scratch = scratch  # it is removed with this object
        indexes = OpenIndexes(store, ArtifactStore(scratch.name), searched.computing)
        for task in searched.tasks.values():
            for system in searched.systems.values():
                for first_stage in system.searched_with:
                    if first_stage.work != "nothing":
                        indexes.open(task, first_stage)
        self._running = Running(
            store=store,
            indexes=indexes,
            texts={name: OpenTexts(store, task.corpus) for name, task in searched.tasks.items()},
            scorers=searched.scorers,
            addresses=searched.addresses,
            pair_budget=searched.pair_budget,
        )
        self._questions = {
            name: {query.text: query for query in reversed(task.queries)} for name, task in searched.tasks.items()
        }

    @classmethod
    def open(cls, searched: Searched) -> Self:
        """Open all indexes in this process."""
        return cls(searched, TemporaryDirectory(prefix="r2med-questions-"))

    def search(self, request: SearchRequest, tell: Callable[[Event], None], stop: threading.Event) -> None:
        """Answer a question, see `search_app.Answering`. The last event is `done` or `error`."""
        began = time.monotonic()
        try:
            self._search(request, tell, stop)
        except StoppedError:
            return
        except R2MedError as error:
            status = 422 if isinstance(error, ConfigError | DataError) else 502
            tell(event("error", Failed(status=status, detail=str(error))))
            return
        tell(event("done", Done(seconds=time.monotonic() - began)))

    def _search(self, request: SearchRequest, tell: Callable[[Event], None], stop: threading.Event) -> None:
        task, system = self._searched.tasks[request.task], self._searched.systems[request.system]
        known = self._questions[task.name].get(request.question)
        if known is None and replays(system):
            raise ConfigError(
                f"system {system.name!r} uses texts that were written earlier, and there is none for this question: "
                "ask one of the benchmark's own, or choose another system"
            )
        query = known or Query(query_id=uuid.uuid4().hex, text=request.question)
        grades = task.qrels.get(known.query_id, {}) if known else None
        begun = Begun(
            question=request.question,
            system=system.name,
            task=task.name,
            query_id=known.query_id if known else None,
            relevant=None if grades is None else len(positives_of(grades)),
        )
        tell(event("begun", begun))
        asked = replace(task, queries=(query,), all_queries=task.all_queries or task.queries)
        telling = Telling(system, self._running.texts[task.name], grades or {}, request.k, tell)
        answers = LiveAnswers(self._running, telling, stop)
        steps = rank(asked, lenient(system), device=self._searched.computing.device, watcher=telling, checks=False)
        part: Part[Any] = Part(f"{system.name} on {task.name}", steps)
        with contextlib.closing(part):
            part.start()
            part.advance(answers.look_up)
        if isinstance(part.outcome, R2MedError):
            raise part.outcome
        assert part.outcome is not None
        telling.ranked(part.outcome.result)


def replays(system: ResolvedSystem) -> bool:
    """Return whether a system can only be asked questions that texts were written for, or lists made of, earlier."""
    rewriter = system.config.rewriter
    is_replayed = rewriter is not None and rewriter.generations is not None
    return is_replayed or any(first_stage.work == "nothing" for first_stage in system.searched_with)


def lenient(system: ResolvedSystem) -> ResolvedSystem:
    """Return a system that bears unusable texts and answers. The limits of a benchmark are shares of many queries."""
    bears, rewriter = {"max_unusable": 1.0}, system.config.rewriter
    changed = {"rewriter": rewriter.model_copy(update=bears)} if rewriter else {}
    return replace(
        system,
        config=system.config.model_copy(update=changed),
        rerankers=tuple(replace(each, config=each.config.model_copy(update=bears)) for each in system.rerankers),
    )
