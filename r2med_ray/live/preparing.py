"""What a search page needs before the first question: tasks, systems whose models are at hand, and what to index."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from r2med_ray.benchmark import load_tasks
from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.first_stages.preparation import QuerySet
from r2med_ray.live.open_corpora import group_of
from r2med_ray.live.searcher import replays
from r2med_ray.reporting.missing import Missing, needs
from r2med_ray.secrets import scrubbed
from r2med_ray.serving.search_answers import Offer, Question, SystemOffer, TaskOffer
from r2med_ray.settings.registry import nearest
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem
from r2med_ray.types import Task
from r2med_ray.workbench.bench import Workbench


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What can be asked: every index of it is made."""

    tasks: dict[str, Task]
    systems: dict[str, ResolvedSystem]
    offer: Offer

    @property
    def questions(self) -> dict[str, list[Question]]:
        """Task → its own questions."""
        return {
            name: [Question(query_id=query.query_id, text=query.text) for query in task.queries]
            for name, task in self.tasks.items()
        }


def narrowed(benchmark: ResolvedBenchmark, tasks: Sequence[str], systems: Sequence[str]) -> ResolvedBenchmark:
    """Return a benchmark with some of its tasks and systems; with all of them where no name is given.

    Raises:
        ConfigError: a name is none of the benchmark's; gives the nearest one.
    """
    wanted_tasks = _wanted("task", [entry.name for entry in benchmark.tasks], tasks)
    wanted_systems = _wanted("system", [system.name for system in benchmark.systems], systems)
    return replace(
        benchmark,
        tasks=tuple(entry for entry in benchmark.tasks if entry.name in wanted_tasks),
        systems=tuple(system for system in benchmark.systems if system.name in wanted_systems),
    )


def prepare(benchmark: ResolvedBenchmark, bench: Workbench) -> Prepared:
    """Load the tasks, and make what the store lacks of their corpora.

    Raises:
        NotAtHand: something is not at hand and may not be left out, or nothing is left.
    """
    missing = Missing(benchmark.config.when_missing)
    loaded, _ = load_tasks(benchmark, bench.store, missing)
    at_hand = {}
    for system in benchmark.systems:
        with missing.noted("all tasks", [system.name]):
            for row in system.rows:
                bench.runner.require(row)
            at_hand[system.name] = system
    missing.require_some(len(loaded) * len(at_hand))
    _make(bench, loaded, list(at_hand.values()))
    offer = Offer(
        benchmark=benchmark.config.name,
        systems=[
            SystemOffer(name=name, description=system.describe(), replays=replays(system))
            for name, system in at_hand.items()
        ],
        tasks=[
            TaskOffer(name=task.name, documents=task.corpus.num_documents, questions=len(task.queries))
            for task in loaded
        ],
        missing=[scrubbed(line) for line in needs(missing.records)],
    )
    return Prepared(tasks={task.name: task for task in loaded}, systems=at_hand, offer=offer)


def _make(bench: Workbench, tasks: Sequence[Task], systems: Sequence[ResolvedSystem]) -> None:
    """Make what is not stored of corpora, and of the tasks' own questions where no service is paid for it."""
    groups: dict[tuple[str, str], dict[tuple[str, ShardedFirstStage], Task]] = {}
    for system in systems:
        for first_stage in system.searched_with:
            if first_stage.work != "nothing":
                group = groups.setdefault(group_of(first_stage), {})
                group |= {(task.name, first_stage): task for task in tasks}
    for group in groups.values():
        corpora = [(task, first_stage) for (_, first_stage), task in group.items()]
        asks = all(first_stage.work == "encode" for _, first_stage in group)
        sets = [QuerySet(task, first_stage, task.queries) for task, first_stage in corpora if asks]
        bench.runner.prepare(corpora, sets)


def _wanted(what: str, known: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in known:
            others = f"{nearest(name, known)} Known: {', '.join(known)}"
            raise ConfigError(f"the benchmark has no {what} {name!r}.{others}")
    return names or known
