"""Leads the parts of all systems and tasks together: what the store holds is answered, the rest is done in batches.

    parts → demands → what is stored | batches → the ledger chooses one → a runner does it → answers → parts

One batch at a time, with two exceptions, where there is room: corpora are prepared while a language model writes, and
several indexes are searched at once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from r2med_ray.demands import Steps
from r2med_ray.errors import DataError, NotAtHand
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task
from r2med_ray.workbench.answers import Answer
from r2med_ray.workbench.leading import Leading
from r2med_ray.workbench.parts import Ended, Part
from r2med_ray.workbench.runner import Runner
from r2med_ray.workbench.stored_answers import StoredAnswers
from r2med_ray.workbench.worklog import Worklog

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a part would wait for, if it were run now."""

    waits_for: tuple[Answer, ...]
    is_rewriting: bool
    """Whether the part still expects searches: what it waits for comes before them."""

    error: DataError | None = None
    """Why the part can't begin, or can't go on."""

    @property
    def is_finished(self) -> bool:
        """Whether the store answers all of it."""
        return not self.waits_for and self.error is None


class Driver:
    """Answers the demands of parts.

    Args:
        store: where everything that is made is kept.
        runner: does the work.
        worklog: gets starts and endings, and what was scored and written; the runner notes what it prepares.
        fetch: gets a published file of a task.
    """

    def __init__(
        self, store: ArtifactStore, runner: Runner, worklog: Worklog, fetch: Callable[[Task, str], Path]
    ) -> None:
        self._store = store
        self._runner = runner
        self._worklog = worklog
        self._fetch = fetch

    def run(self, parts: Mapping[str, Steps[T]]) -> Iterator[tuple[str, Ended[T] | NotAtHand]]:
        """Lead parts to their end, and yield each as soon as it is there.

        A part that needs what is not at hand ends alone. Any other error ends all parts. Whatever was started for
        them has ended when the iterator ends, is closed, or raises.

        Args:
            parts: name → part. Errors say the name.

        Raises:
            R2MedError: a part failed, or a stage. What was finished is stored.
        """
        answers = StoredAnswers(self._store, self._runner, self._fetch)
        return Leading(self._store, self._runner, self._worklog, answers.look_up).lead(parts)

    def count(self, parts: Mapping[str, Steps[T]]) -> dict[str, Counted]:
        """Lead parts as far as the store answers, and return what each would wait for. No work is done for it."""
        answers = self._answers_without_writing()
        return {name: self._count(Part(name, steps), answers) for name, steps in parts.items()}

    def stored(self, part: Part[T]) -> T | None:
        """Return the result of a part that the store answers alone; None for one that work would be needed for.

        Raises:
            R2MedError: the part failed.
        """
        self._look_up_all(part, self._answers_without_writing())
        part.close()
        if isinstance(part.outcome, NotAtHand):
            raise part.outcome
        return part.outcome.result if part.outcome else None

    def _count(self, part: Part[Any], answers: StoredAnswers) -> Counted:
        error: DataError | None = None
        try:
            self._look_up_all(part, answers)
        except DataError as stopped:  # the run stops at it; a plan says so
            error = stopped
        if isinstance(part.outcome, NotAtHand):
            error = part.outcome
        part.close()
        is_rewriting = bool(part.expects.searches)
        return Counted(waits_for=tuple(part.waits_for), is_rewriting=is_rewriting, error=error)

    def _answers_without_writing(self) -> StoredAnswers:
        return StoredAnswers(self._store, self._runner, self._fetch, may_write=False)

    def _look_up_all(self, part: Part[Any], answers: StoredAnswers) -> None:
        part.start()
        part.advance(answers.look_up)
