"""Leads the parts of all systems and tasks together: what the store holds is answered, the rest is done in batches.

    parts → demands → what is stored | batches → the ledger chooses one → a runner does it → answers → parts

One batch at a time, but for one thing: while a language model writes, corpora are prepared where both have room.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from r2med_ray.demands import Steps
from r2med_ray.errors import DataError, NotAtHand
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task
from r2med_ray.workbench import ledger
from r2med_ray.workbench.batches import Batch, Batches, waited_for, wanted_by
from r2med_ray.workbench.holders import Holders
from r2med_ray.workbench.lacks import Lack, LackingRun, LackingScores, LackingTexts
from r2med_ray.workbench.parts import Ended, Part
from r2med_ray.workbench.runner import Runner
from r2med_ray.workbench.serving_batches import find_runs, score_pairs, write_texts
from r2med_ray.workbench.side_by_side import side_by_side
from r2med_ray.workbench.stored_answers import StoredAnswers
from r2med_ray.workbench.worklog import Worklog

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a part would wait for, if it were run now."""

    lacks: tuple[Lack, ...]
    is_rewriting: bool
    """Whether it still expects searches: what it waits for comes before them."""

    error: DataError | None = None
    """Why it can't begin, or can't go on."""


class Driver:
    """Answers the demands of parts.

    Args:
        store: where everything that is made is kept.
        runner: does the work.
        worklog: gets the starts and endings; the runner notes the work there.
        fetch: gets a published file of a task.
    """

    def __init__(
        self, store: ArtifactStore, runner: Runner, worklog: Worklog, fetch: Callable[[Task, str], Path]
    ) -> None:
        self._store = store
        self._runner = runner
        self._worklog = worklog
        self._fetch = fetch
        self._answers = StoredAnswers(store, runner, fetch)
        self._batches = Batches(store, runner)
        self._holders = Holders(worklog)
        self._passed_over: Counter[str] = Counter()

    def run(self, parts: Mapping[str, Steps[T]]) -> Iterator[tuple[str, Ended[T] | NotAtHand]]:
        """Lead parts to their end, and yield each as soon as it is there.

        What a part lacks that is not at hand ends that part alone. Any other error ends all of them.

        Args:
            parts: by name; errors say it.

        Raises:
            R2MedError: a part failed, or a stage. What was finished is stored, and what was started has ended.
        """
        live = {name: Part(name, steps) for name, steps in parts.items()}
        try:
            for part in live.values():
                part.start()
            yield from self._go_on(live, list(live))
            while live:
                batch = self._next_batch(live)
                waiting = list(batch.waiting)
                self._serve(batch, live)
                yield from self._go_on(live, waiting)
                self._end_idle(live)
        finally:
            for part in live.values():
                part.close()
            self._holders.close()

    def count(self, parts: Mapping[str, Steps[T]]) -> dict[str, Counted]:
        """Lead parts as far as the store answers, and return what each would wait for. No work is done for it."""
        return {name: self._count(Part(name, steps)) for name, steps in parts.items()}

    def stored(self, part: Part[T]) -> T | None:
        """Return the result of a part that the store answers alone; None for one that work would be needed for.

        Raises:
            R2MedError: the part failed.
        """
        self._look_up_all(part)
        part.close()
        if isinstance(part.outcome, NotAtHand):
            raise part.outcome
        return part.outcome.result if part.outcome else None

    def _count(self, part: Part[Any]) -> Counted:
        error: DataError | None = None
        try:
            self._look_up_all(part)
        except DataError as stopped:  # the run stops at it; a plan says so
            error = stopped
        if isinstance(part.outcome, NotAtHand):
            error = part.outcome
        part.close()
        return Counted(lacks=tuple(part.lacks), is_rewriting=bool(part.expects.searches), error=error)

    def _look_up_all(self, part: Part[Any]) -> None:
        answers = StoredAnswers(self._store, self._runner, self._fetch, may_write=False)
        part.start()
        part.advance(answers.look_up)

    def _go_on(self, live: dict[str, Part[T]], names: list[str]) -> Iterator[tuple[str, Ended[T] | NotAtHand]]:
        for name in names:
            part = live[name]
            part.advance(self._answers.look_up)
            while part.outcome is None and (error := self._not_at_hand(part)):
                part.fail(error)
                part.advance(self._answers.look_up)
            if part.outcome is not None:
                del live[name]
                yield name, part.outcome

    def _not_at_hand(self, part: Part[Any]) -> NotAtHand | None:
        """Return what a part waits for or expects and can't have; asked before anything is begun for it."""
        rows: list[object] = [stage.row for _, stage in part.expects.searches]
        rows += [*part.expects.models, *part.expects.scorers]
        for lack in part.lacks:
            match lack:
                case LackingRun():
                    rows.append(lack.find.stage.row)
                case LackingTexts():
                    rows.append(lack.ask.model)
                case LackingScores():
                    rows.append(lack.score.scorer)
        for row in rows:
            try:
                self._runner.require(row)
            except NotAtHand as error:
                return error
        return None

    def _next_batch(self, live: Mapping[str, Part[Any]]) -> Batch:
        batches = self._sorted(live)
        waiting = waited_for(batches.values())
        groups = [batch.group(self._passed_over[batch.place.name]) for batch in waiting]
        choice = ledger.choose(self._runner.capacity, self._holders.reserved, groups)
        self._passed_over.update(group.name for group in groups)
        del self._passed_over[choice.group.name]
        self._holders.end(choice.end)
        return batches[choice.group.name]

    def _sorted(self, live: Mapping[str, Part[Any]]) -> dict[str, Batch]:
        batches = self._batches.sort(live.values())
        self._holders.note_wanted(dict(wanted_by(batches)))
        return batches

    def _end_idle(self, live: Mapping[str, Part[Any]]) -> None:
        self._sorted(live)
        self._holders.end(ledger.idle(self._holders.reserved))

    def _serve(self, batch: Batch, live: Mapping[str, Part[Any]]) -> None:
        match batch.place.kind:
            case "prepare":
                self._prepare(batch)
            case "lists" | "search":
                find_runs(self._store, self._runner, self._holders, batch)
            case "score":
                score_pairs(self._store, self._runner, self._holders, self._worklog, batch)
            case "write":
                self._write(batch, live)

    def _prepare(self, batch: Batch) -> None:
        self._runner.prepare_corpora(list(batch.corpora.values()))
        self._runner.prepare_queries(batch.query_sets)
        self._batches.note_prepared(batch.corpora, batch.lacks)

    def _write(self, batch: Batch, live: Mapping[str, Part[Any]]) -> None:
        write = partial(write_texts, self._store, self._runner, self._holders, self._worklog, batch)
        beside = list(self._beside(batch, live))
        if beside:
            side_by_side(partial(self._prepare_beside, beside), write, self._runner.stop)
        else:
            write()

    def _beside(self, writing: Batch, live: Mapping[str, Part[Any]]) -> Iterator[Batch]:
        """Yield what can be prepared for the parts that wait or write while a language model has its turn."""
        reserved = [*self._holders.reserved.values()]
        if writing.place.name not in self._holders.reserved:
            reserved.append(ledger.Holder(name=writing.place.name, need=writing.place.need))
        for batch in self._batches.sort(live.values()).values():
            if batch.corpora and ledger.fits_beside(self._runner.capacity, reserved, batch.place.need):
                yield batch

    def _prepare_beside(self, batches: list[Batch]) -> None:
        for batch in batches:
            self._runner.prepare_corpora(list(batch.corpora.values()))
            self._batches.note_prepared(batch.corpora)
