"""What may run: which demands are served next, what has to end for them, and what fits beside. Numbers only, no Ray.

A *holder* reserves CPUs and GPUs until it is ended: an open index, a served model, a served scorer. A *group* is a
set of demands that one holder answers, or one passing piece of work such as encoding. The rules, in this order:

1. A group that nothing has to end for goes before one for which something ends that is still needed. So tasks whose
   indexes don't fit together take turns in sets, each set to the end of its searches, rather than every turn anew.
2. A group that all who need it have reached goes before one that others are still on their way to: batches are large,
   and every model is loaded once.
3. What runs already goes before what would have to start, and what starts quickly before what starts slowly.

A group that was passed over `PATIENCE` times goes first whatever the rules say, the longest wait before the others.
So every wait has a bound: `PATIENCE` choices, and one for each other group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from r2med_ray.errors import CapacityError

PATIENCE = 1000
"""How often a group may be passed over. Turns of agents are some tens; this is a bound, not a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """CPUs and GPUs that something reserves."""

    cpus: float = 0.0
    gpus: float = 0.0

    def __add__(self, other: "Need") -> "Need":
        return Need(cpus=self.cpus + other.cpus, gpus=self.gpus + other.gpus)

    def fits(self, room: "Need") -> bool:
        """Say whether it is no more than there is, but for rounding."""
        return self.cpus <= room.cpus + 1e-9 and self.gpus <= room.gpus + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Demands that are served together."""

    name: str
    """The name of the holder that answers the demands, or of the work that holds nothing afterwards."""

    need: Need
    waiting: frozenset[str] = frozenset()
    """The parts that can't go on without it."""

    coming: frozenset[str] = frozenset()
    """The parts that are still on their way to it."""

    start_rank: int = 0
    """How slowly it starts: less is sooner."""

    passed_over: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Something that runs and reserves."""

    name: str
    need: Need
    wanted_by: frozenset[str] = frozenset()
    """The parts that wait for it or are on their way to it."""

    start_rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is done next."""

    group: Group
    end: tuple[str, ...] = ()
    """Holders that end first."""


def decide(
    capacity: Need, holders: Mapping[str, Holder], groups: Sequence[Group], patience: int = PATIENCE
) -> Decision:
    """Return the group that is served next, and what ends for it.

    Args:
        capacity: what the cluster has.
        holders: what runs.
        groups: one or more; each with a part that waits for it.
        patience: see `PATIENCE`.

    Raises:
        CapacityError: no group could ever be served; names the first one, with both numbers.
    """
    possible = [group for group in groups if group.need.fits(capacity)]
    if not possible:
        group = groups[0]
        raise CapacityError(
            f"{group.name} reserves {group.need.cpus:g} CPU and {group.need.gpus:g} GPU; the cluster has "
            f"{capacity.cpus:g} and {capacity.gpus:g}"
        )
    decisions = [Decision(group=group, end=ends_for(capacity, holders, group)) for group in possible]

    def rank(decision: Decision) -> tuple[int, int, int, bool, int]:
        group = decision.group
        return (
            -group.passed_over if group.passed_over >= patience else 0,
            sum(len(holders[name].wanted_by) for name in decision.end),
            len(group.coming),
            group.name not in holders,
            group.start_rank,
        )

    return min(decisions, key=rank)


def ends_for(capacity: Need, holders: Mapping[str, Holder], group: Group) -> tuple[str, ...]:
    """Return what has to end before a group can be served: as little as possible, what nobody needs first."""
    if group.name in holders:
        return ()

    def use(holder: Holder) -> tuple[int, int, int, str]:
        others = holder.wanted_by - group.waiting
        return len(others), len(holder.wanted_by), holder.start_rank, holder.name

    by_use = sorted(holders.values(), key=use)
    ended: list[Holder] = []
    for holder in by_use:
        if _room(capacity, holders.values(), ended, group.need):
            break
        ended.append(holder)
    for holder in list(ended):  # what turned out not to matter stays
        others = [other for other in ended if other is not holder]
        if _room(capacity, holders.values(), others, group.need):
            ended = others
    return tuple(holder.name for holder in ended)


def fits_beside(capacity: Need, holders: Iterable[Holder], need: Need) -> bool:
    """Say whether there is room for something beside all that runs."""
    return _room(capacity, holders, (), need)


def idle(holders: Mapping[str, Holder]) -> tuple[str, ...]:
    """Return what nobody needs any more: it ends at once, so that pools can grow."""
    return tuple(name for name, holder in holders.items() if not holder.wanted_by)


def _room(capacity: Need, holders: Iterable[Holder], without: Iterable[Holder], need: Need) -> bool:
    left_out = {holder.name for holder in without}
    total = need
    for holder in holders:
        if holder.name not in left_out:
            total += holder.need
    return total.fits(capacity)
