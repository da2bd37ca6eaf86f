"""One run of parts: which of them wait, what runs for them, and what is done next."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

from r2med_ray.demands import Steps
from r2med_ray.errors import NotAtHand
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.workbench import ledger
from r2med_ray.workbench.answers import RunAnswer, ScoresAnswer, TextsAnswer
from r2med_ray.workbench.batches import Batch, Batches, waited_for, wanted_by
from r2med_ray.workbench.holders import Holders
from r2med_ray.workbench.parts import Ended, LookUp, Part
from r2med_ray.workbench.runner import Runner
from r2med_ray.workbench.serving_batches import find_runs, score_pairs, write_texts
from r2med_ray.workbench.side_by_side import at_once, side_by_side
from r2med_ray.workbench.worklog import Worklog

T = TypeVar("T")


class Leading:
    """Leads some parts to their end, once.

    Args:
        store: where everything that is made is kept.
        runner: does the work.
        worklog: gets starts and endings, and what was scored and written.
        look_up: answers demands as far as the store does.
    """

    def __init__(self, store: ArtifactStore, runner: Runner, worklog: Worklog, look_up: LookUp) -> None:
        self._store = store
        self._runner = runner
        self._worklog = worklog
        self._look_up = look_up
        self._batches = Batches(store, runner)
        self._holders = Holders(worklog)
        self._live: dict[str, Part[Any]] = {}
        self._passed_over: Counter[str] = Counter()

    def lead(self, parts: Mapping[str, Steps[T]]) -> Iterator[tuple[str, Ended[T] | NotAtHand]]:
        """Lead parts to their end, see `driver.Driver.run`."""
        with ExitStack() as closing:
            closing.callback(self._holders.close)
            for name, steps in parts.items():
                self._live[name] = Part(name, steps)
                closing.callback(self._live[name].close)
            for part in self._live.values():
                part.start()
            yield from self._go_on(list(self._live))
            batches = self._sorted()
            while self._live:
                chosen = self._chosen(batches)
                served = [chosen, *self._searched_beside(chosen, batches)]
                at_once([partial(self._serve, batch, batches, beside=len(served) > 1) for batch in served])
                waited = {name for batch in served for name in batch.waiting}
                yield from self._go_on([name for name in self._live if name in waited])
                batches = self._sorted()
                self._holders.end(ledger.idle(self._holders.reserved))

    def _go_on(self, names: list[str]) -> Iterator[tuple[str, Ended[Any] | NotAtHand]]:
        for name in names:
            part = self._live[name]
            part.advance(self._look_up)
            while part.outcome is None and (error := self._not_at_hand(part)):
                part.fail(error)
                part.advance(self._look_up)
            if part.outcome is not None:
                del self._live[name]
                yield name, part.outcome

    def _not_at_hand(self, part: Part[Any]) -> NotAtHand | None:
        """Return what a part waits for or expects and can't have; asked before anything is begun for it."""
        rows: list[object] = [first_stage.row for _, first_stage in part.expects.searches]
        rows += [*part.expects.models, *part.expects.scorers]
        for answer in part.waits_for:
            match answer:
                case RunAnswer():
                    rows.append(answer.find.first_stage.row)
                case TextsAnswer():
                    rows.append(answer.ask.model)
                case ScoresAnswer():
                    rows.append(answer.score.scorer)
        for row in rows:
            try:
                self._runner.require(row)
            except NotAtHand as error:
                return error
        return None

    def _sorted(self) -> dict[str, Batch]:
        batches = self._batches.sort(self._live.values())
        self._holders.note_wanted(dict(wanted_by(batches)))
        return batches

    def _chosen(self, batches: Mapping[str, Batch]) -> Batch:
        """Return the batch that is served next, once what is in its way has ended."""
        groups = self._groups(batches)
        decision = ledger.decide(self._runner.capacity, self._holders.reserved, groups)
        self._passed_over.update(group.name for group in groups)
        del self._passed_over[decision.group.name]
        self._holders.end(decision.end)
        return batches[decision.group.name]

    def _groups(self, batches: Mapping[str, Batch]) -> list[ledger.Group]:
        return [batch.group(self._passed_over[batch.place.name]) for batch in waited_for(batches.values())]

    def _searched_beside(self, chosen: Batch, batches: Mapping[str, Batch]) -> list[Batch]:
        """Return the searches in other indexes that there is room for while one has its turn."""
        if chosen.place.kind != "search":
            return []
        searches = [group for group in self._groups(batches) if batches[group.name].place.kind == "search"]
        joined = ledger.side_by_side(
            self._runner.capacity, self._holders.reserved, chosen.group(0), searches, self._runner.searches_at_once
        )
        for group in joined:
            del self._passed_over[group.name]
        return [batches[group.name] for group in joined]

    def _serve(self, batch: Batch, batches: Mapping[str, Batch], *, beside: bool) -> None:
        """Serve a batch, with others beside it or not."""
        match batch.place.kind:
            case "prepare":
                self._runner.prepare(list(batch.corpora.values()), batch.query_sets)
                self._batches.note_prepared(batch.corpora, batch.answers)
            case "lists" | "search":
                find_runs(self._store, self._runner, self._holders, self._worklog, batch)
                if beside:
                    self._give_back(batch)
            case "score":
                score_pairs(self._store, self._runner, self._holders, self._worklog, batch)
            case "write":
                # In a second thread in any case: a notebook's own thread already runs an event loop.
                prepared = self._beside(batch, batches)
                write = partial(self._write, batch, beside=bool(prepared))
                side_by_side(partial(self._prepare, prepared), write, self._runner.stop)

    def _write(self, batch: Batch, *, beside: bool) -> None:
        write_texts(self._store, self._runner, self._holders, self._worklog, batch)
        if beside:
            self._give_back(batch)

    def _give_back(self, served: Batch) -> None:
        """End what answered a batch if no part will need it: what goes on beside it may take long."""
        if not served.coming and self._holders.runs(served.place.name):
            self._holders.end([served.place.name])

    def _beside(self, writing: Batch, batches: Mapping[str, Batch]) -> list[Batch]:
        """Return what can be prepared for parts that wait or write, while a language model has its turn."""
        holders = {name: holder for name, holder in self._holders.reserved.items() if name != writing.place.name}
        own = ledger.Holder(name=writing.place.name, need=writing.place.need)
        return [
            batch
            for batch in batches.values()
            if batch.corpora and ledger.fits_beside(self._runner.capacity, [*holders.values(), own], batch.place.need)
        ]

    def _prepare(self, batches: list[Batch]) -> None:
        for batch in batches:
            self._runner.prepare(list(batch.corpora.values()), [])
            self._batches.note_prepared(batch.corpora)
