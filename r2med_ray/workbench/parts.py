"""A part at work: its generator, what it waits for, and what became of it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from r2med_ray.demands import Demand, Expect, Steps
from r2med_ray.errors import NotAtHand, R2MedError
from r2med_ray.workbench.lacks import Lack

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[T]):
    """A part that came to its end."""

    result: T
    seconds: dict[str, float]
    """Arrow of the flow → how long the part's own demands took; nothing for those that the store answered."""

    artifacts: tuple[str, ...]
    """Names of the runs and scores that it was given, in its order."""


@dataclass(slots=True)
class _Pending:
    demand: Demand
    answered: bool = False
    answer: Any = None
    lack: Lack | None = None


class Part(Generic[T]):
    """Leads one part from demand to demand.

    Args:
        name: what errors call it; no two parts that are led together have the same one.
        steps: the part.
    """

    def __init__(self, name: str, steps: Steps[T]) -> None:
        self.name = name
        self.expects = Expect()
        self.outcome: Ended[T] | NotAtHand | None = None
        self.seconds: Counter[str] = Counter()
        self.artifacts: list[str] = []
        self._steps = steps
        self._pending: list[_Pending] = []
        self._several = False

    @property
    def lacks(self) -> list[Lack]:
        """What the store doesn't hold of what it waits for."""
        return [item.lack for item in self._pending if item.lack is not None and not item.answered]

    def start(self) -> None:
        """Begin."""
        self._go_on(partial(next, self._steps))

    def advance(self, look_up: Callable[["Part[T]", Demand], Any]) -> None:
        """Go on as far as answers are there.

        Args:
            look_up: returns an answer, or a `Lack`; what it raises is raised where the demand was yielded.
        """
        while self.outcome is None:
            try:
                for item in self._pending:
                    self._answer(item, look_up)
            except R2MedError as error:
                self.fail(error)
                continue
            if self.lacks:
                return
            answers = [item.answer for item in self._pending]
            self._go_on(partial(self._steps.send, answers if self._several else answers[0]))

    def fail(self, error: R2MedError) -> None:
        """Raise an error where the part waits."""
        self._go_on(partial(self._steps.throw, error))

    def close(self) -> None:
        """End it where it stands."""
        self._steps.close()

    def _answer(self, item: _Pending, look_up: Callable[["Part[T]", Demand], Any]) -> None:
        if item.answered:
            return
        if isinstance(item.demand, Expect):
            self.expects = item.demand
            item.answered = True
            return
        if item.lack is None:
            found = look_up(self, item.demand)
        elif item.lack.is_filled:
            found = item.lack.answer()
            self.artifacts += item.lack.names
            self.seconds.update(item.lack.seconds)
        else:
            return
        if isinstance(found, Lack):
            item.lack = found
            return
        item.answer, item.answered = found, True

    def _go_on(self, step: Callable[[], Demand | tuple[Demand, ...]]) -> None:
        try:
            asked = step()
        except StopIteration as end:
            self.outcome = Ended(result=end.value, seconds=dict(self.seconds), artifacts=tuple(self.artifacts))
            return
        except NotAtHand as error:
            self.outcome = error
            return
        self._several = isinstance(asked, tuple)
        self._pending = [_Pending(demand) for demand in (asked if isinstance(asked, tuple) else (asked,))]
