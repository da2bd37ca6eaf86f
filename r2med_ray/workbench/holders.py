"""What runs and reserves: open indexes, served scorers and language models. All of them end here."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Protocol, TypeVar, cast

from r2med_ray.workbench.ledger import Holder
from r2med_ray.workbench.places import START_RANK, Place
from r2med_ray.workbench.worklog import Worklog


class Closable(Protocol):
    def close(self) -> None: ...


H = TypeVar("H", bound=Closable)


class Holders:
    """Starts a holder when it is first needed, and ends it when it is told to.

    Args:
        worklog: counts starts and endings.
    """

    def __init__(self, worklog: Worklog) -> None:
        self._worklog = worklog
        self._running: dict[str, tuple[ExitStack, Closable]] = {}
        self._reserved: dict[str, Holder] = {}
        self._wanted: Mapping[str, frozenset[str]] = {}

    @property
    def reserved(self) -> Mapping[str, Holder]:
        """What each reserves, and which parts need it."""
        nobody: frozenset[str] = frozenset()
        return {
            name: replace(holder, wanted_by=self._wanted.get(name, nobody)) for name, holder in self._reserved.items()
        }

    def note_wanted(self, wanted: Mapping[str, frozenset[str]]) -> None:
        """Remember which parts need which holder."""
        self._wanted = wanted

    def hold(self, place: Place, start: Callable[[], H]) -> H:
        """Return the holder of a place, started if it doesn't run."""
        name = place.name
        if name not in self._running:
            with ExitStack() as stack:
                holder = start()
                stack.callback(holder.close)
                stack.enter_context(self._worklog.held(name))
                self._running[name] = stack.pop_all(), holder
            self._reserved[name] = Holder(name=name, need=place.need, start_rank=START_RANK[place.kind])
        return cast(H, self._running[name][1])

    def runs(self, name: str) -> bool:
        """Say whether a holder runs; asked from any thread."""
        return name in self._running

    def end(self, names: Sequence[str]) -> None:
        """End holders; what they reserved is free."""
        for name in names:
            stack, _ = self._running.pop(name)
            del self._reserved[name]
            stack.close()

    def close(self) -> None:
        """End all of them, the latest first, even where one of them fails to end."""
        with ExitStack() as all_of_them:
            for name in list(self._running):
                all_of_them.callback(self.end, [name])
