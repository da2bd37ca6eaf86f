"""Decides which demands are served next, what has to end for them, and what fits beside. Numbers only, no Ray.

A *holder* reserves CPUs and GPUs until it is ended: an open index, a served model, a served scorer. A *group* is a
set of demands that one holder answers, or a piece of work that reserves nothing afterwards, such as encoding. The
rules, in this order:

1. A group for which nothing needed has to end goes before one for which something needed ends. So tasks whose indexes
   don't fit together are served in sets: each set is served to the end of its searches, and no index is opened again
   for every turn of an agent.
2. A group for which all parts that need it are waiting goes before one that other parts will need later. So batches
   are large, and every model is loaded once.
3. A holder that runs already goes before one that has to start. A quick start goes before a slow one.

A group that was passed over `PATIENCE` times goes first whatever the rules say; among such groups, the longest wait
goes first. So every wait has a bound: `PATIENCE` decisions, and one more for each other group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from r2med_ray.errors import CapacityError
from r2med_ray.settings.pools import Pool

SHARE_OF_MEMORY = 0.5
"""Share of the memory of all nodes that one index may take and still be held. Other indexes, models and what reading
takes need the rest."""

PATIENCE = 1000
"""How often a group may be passed over. An agent has some tens of turns, so the number is only a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """CPUs and GPUs that something reserves."""

    cpus: float = 0.0
    gpus: float = 0.0

    @classmethod
    def of_all(cls, pool: Pool) -> Self:
        """Return what all actors of a pool reserve."""
        return cls(cpus=pool.actors * pool.cpus, gpus=pool.actors * pool.gpus)

    def __add__(self, other: "Need") -> "Need":
        return Need(cpus=self.cpus + other.cpus, gpus=self.gpus + other.gpus)

    def fits(self, room: "Need") -> bool:
        """Say whether there is room for this much. Errors of rounding are allowed for."""
        return self.cpus <= room.cpus + 1e-9 and self.gpus <= room.gpus + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Demands that are served together."""

    name: str
    """The name of the holder that answers the demands, or of the work that holds nothing afterwards."""

    need: Need
    waiting: frozenset[str] = frozenset()
    """The parts that wait for the answers."""

    coming: frozenset[str] = frozenset()
    """The parts that will need the holder later."""

    start_rank: int = 0
    """How slowly the holder starts; a lower number is a quicker start."""

    passed_over: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Something that runs and reserves."""

    name: str
    need: Need
    wanted_by: frozenset[str] = frozenset()
    """The parts that wait for the holder or will need it later."""

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
        groups: one or more groups. At least one part waits for each.
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
    """Return what has to end before a group can be served: as little as possible, and first what nobody needs."""
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


def side_by_side(
    capacity: Need, holders: Mapping[str, Holder], chosen: Group, others: Iterable[Group], most: int
) -> list[Group]:
    """Return groups that can be served at the same time as a chosen one.

    Nothing ends for them, and no part that needs them is still on the way.

    Args:
        capacity: what the cluster has.
        holders: what runs once room was made for the chosen group.
        chosen: is served in any case.
        others: the first of them that fit are returned.
        most: how many groups are served at a time, the chosen one among them.
    """
    needs = {name: holder.need for name, holder in holders.items()} | {chosen.name: chosen.need}
    joined: list[Group] = []
    for group in others:
        with_it = needs | {group.name: group.need}
        is_new = group.name != chosen.name and not group.coming
        if is_new and len(joined) < most - 1 and sum(with_it.values(), Need()).fits(capacity):
            joined.append(group)
            needs = with_it
    return joined


def are_held(held_shards: Literal["all", "none", "auto"], held_bytes: int, memory_gb: float | None) -> bool:
    """Say whether the shards of an index stay in memory between searches, or are read one by one for each.

    Args:
        held_shards: the setting.
        held_bytes: what the indexes of the shards would hold.
        memory_gb: memory of all nodes, in units of 2^30 bytes; None if it is not known.
    """
    fits = memory_gb is None or held_bytes <= SHARE_OF_MEMORY * memory_gb * 2**30
    return held_shards == "all" or (held_shards == "auto" and fits)


def idle(holders: Mapping[str, Holder]) -> tuple[str, ...]:
    """Return the holders that nobody needs any more. They end at once, so that pools can grow."""
    return tuple(name for name, holder in holders.items() if not holder.wanted_by)


def _room(capacity: Need, holders: Iterable[Holder], without: Iterable[Holder], need: Need) -> bool:
    left_out = {holder.name for holder in without}
    total = need
    for holder in holders:
        if holder.name not in left_out:
            total += holder.need
    return total.fits(capacity)
