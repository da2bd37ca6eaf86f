"""A part at work: its generator, the answers that it waits for, and what became of it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from r2med_ray.cuts import PartCuts
from r2med_ray.demands import Demand, Expect, Find, Steps
from r2med_ray.errors import NotAtHand, R2MedError
from r2med_ray.workbench.answers import Answer, KnownAnswer
from r2med_ray.workbench.made import Made

T = TypeVar("T")

LookUp: TypeAlias = Callable[[str, Demand], Answer]
"""Name of a part, and what it demands → the answer as far as it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[T]):
    """A part that came to its end."""

    result: T
    seconds: dict[str, float]
    """Arrow of the flow → how long the work for its answers took, whichever job did it."""

    artifacts: tuple[str, ...]
    """Names of the runs and scores that it was given, in the order of its demands."""

    cuts: tuple[PartCuts, ...] = ()
    """What was cut for the runs that it was given, in the order of its demands."""

    made: tuple[Made, ...] = ()
    """How the scores and texts that it was given were made."""


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
        self._steps = steps
        self._demands: tuple[Demand, ...] = ()
        self._answers: list[Answer] = []
        self._several = False
        self._seconds: Counter[str] = Counter()
        self._artifacts: list[str] = []
        self._cuts: list[PartCuts] = []
        self._made: list[Made] = []

    @property
    def waits_for(self) -> list[Answer]:
        """The answers that are yet to be made."""
        return [answer for answer in self._answers if not answer.is_there]

    def start(self) -> None:
        """Begin."""
        self._go_on(partial(next, self._steps))

    def advance(self, look_up: LookUp) -> None:
        """Go on as far as answers are there.

        Args:
            look_up: what it raises is raised where the demand was yielded.
        """
        while self.outcome is None:
            try:
                while len(self._answers) < len(self._demands):
                    self._answers.append(self._look_up(self._demands[len(self._answers)], look_up))
            except R2MedError as error:
                self.fail(error)
                continue
            if self.waits_for:
                return
            for demand, answer in zip(self._demands, self._answers, strict=True):
                self._artifacts += answer.names
                is_check = isinstance(demand, Find) and demand.is_check
                self._cuts += [answer.cuts] if answer.cuts and not is_check else []
                self._made += answer.made
                self._seconds.update(answer.seconds)
            values = [answer.value for answer in self._answers]
            self._go_on(partial(self._steps.send, values if self._several else values[0]))

    def fail(self, error: R2MedError) -> None:
        """Raise an error where the part waits."""
        self._go_on(partial(self._steps.throw, error))

    def close(self) -> None:
        """End it where it is."""
        self._steps.close()

    def _look_up(self, demand: Demand, look_up: LookUp) -> Answer:
        if isinstance(demand, Expect):
            self.expects = demand
            return KnownAnswer(None)
        return look_up(self.name, demand)

    def _go_on(self, step: Callable[[], Demand | tuple[Demand, ...]]) -> None:
        self._answers = []
        try:
            asked = step()
        except StopIteration as end:
            self.outcome = Ended(
                result=end.value,
                seconds=dict(self._seconds),
                artifacts=tuple(self._artifacts),
                cuts=tuple(self._cuts),
                made=tuple(self._made),
            )
            return
        except NotAtHand as error:
            self.outcome = error
            return
        self._several = isinstance(asked, tuple)
        self._demands = asked if isinstance(asked, tuple) else (asked,)
