"""A plan for people."""

from collections.abc import Iterable
from dataclasses import dataclass

from r2med_ray.systems import ResolvedBenchmark

NOT_HERE = "not on this machine; the run asks the Hub for data, published texts and checkpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCount:
    """How many artefacts of one kind a task has and lacks."""

    what: str
    task: str
    stored: int
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The benchmark before it starts."""

    benchmark: ResolvedBenchmark
    tasks: tuple[tuple[str, str], ...]
    """(task, what is known about its corpus)"""

    shards: tuple[ShardCount, ...]
    unwritten: tuple[str, ...]
    """How many texts language models have yet to write, per system and task."""

    needs: tuple[str, ...]
    """What is not on this machine and of which kind, with what waits for it."""

    keys: tuple[str, ...]
    """The environment variables with keys of services: whether each is set, and which models are asked with it."""

    cluster: str
    """What there is of nodes, CPUs and GPUs."""

    reservations: tuple[str, ...]
    """What each stage would reserve."""

    read_one_by_one: tuple[str, ...] = ()
    """Indexes that are searched one shard after the other, each read from the store for every search."""

    computing: tuple[str, ...] = ()
    """How each model computes, and for which systems."""

    estimates: tuple[str, ...] = ()
    """How long the work takes that the store doesn't save."""

    def text(self) -> str:
        """Return the plan as lines."""
        config, systems = self.benchmark.config, self.benchmark.systems
        width = max(len(name) for name in [*(s.name for s in systems), *(name for name, _ in self.tasks)])
        lines = [
            f"benchmark {config.name}: {len(systems)} systems × {len(self.tasks)} tasks, depth {config.depth}, "
            f"compat {config.compat}",
            f"cluster: {self.cluster}",
            *_section("systems", (f"{system.name:{width}}  {system.describe()}" for system in systems)),
            *_section("tasks", (f"{name:{width}}  {state}" for name, state in self.tasks)),
            *_section(NOT_HERE, self.needs),
            *_section("keys of services, from the environment", self.keys),
            *_section("artefacts of shards (stored + missing)", map(_counted, self.shards), always=True),
            *_section("texts that a language model has yet to write", self.unwritten),
            *_section("reservations", self.reservations),
            *_section("indexes whose shards are read from the store for every search", self.read_one_by_one),
            *_section("how models compute", self.computing),
            *_section("hours of what is not stored, by what was measured or else by arithmetic", self.estimates),
        ]
        return "\n".join(lines)


def _counted(count: ShardCount) -> str:
    return f"{count.what}, {count.task}: {count.stored} + {count.missing}"


def _section(title: str, lines: Iterable[str], *, always: bool = False) -> list[str]:
    rows = [f"  {line}" for line in lines]
    return [title, *rows] if rows or always else []
