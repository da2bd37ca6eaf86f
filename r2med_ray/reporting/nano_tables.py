"""NanoR2MED's own averages for the leaderboard, named as in NanoR2MED's tables."""

from r2med_ray.evaluation.nano_profile import MEASURES, SUITE, NanoProfile, group_figures
from r2med_ray.reporting.columns import Column, markdown_table
from r2med_ray.reporting.formats import points
from r2med_ray.reporting.summary import Summary, suite_tasks


def nano_sections(summary: Summary) -> list[str]:
    """Return Markdown sections for the suite.

    There are none if the suite wasn't run, or was run without the measures of its tables. A system that lacks a task
    is left out, because NanoR2MED's averages are over the same tasks for all systems.
    """
    record = summary.record
    tasks = suite_tasks(record).get(SUITE, [])
    if not tasks or not set(MEASURES) <= set(record.measures):
        return []
    profiles = {row.system.name: profiles_of(summary, row.system.name) for row in summary.rows}
    complete = {system: of_tasks for system, of_tasks in profiles.items() if len(of_tasks) == len(tasks)}
    groups = [group_figures(of_tasks) for of_tasks in complete.values()]
    if not groups:
        return []
    names = Column(title="System", values=list(complete), is_number=False)
    safeguards = sum(task.counts.get("safeguards", 0) for task in record.tasks if task.name in tasks)
    return [
        f"## {SUITE}'s averages\n",
        markdown_table([names, *(_column(name, [group[name] for group in groups]) for name in groups[0])]),
        f"Positives found over positives, per task (micro_recall_at_100). {safeguards} lists of reranking_hybrid in "
        "these tasks carry a positive at rank 101 that fusion did not find; no figure here looks below rank 100, but "
        "a reranker over those lists can bring it up.\n",
        markdown_table(
            [
                names,
                *(_column(task, [of[task].micro_recall_at_100 for of in complete.values()]) for task in tasks),
            ]
        ),
    ]


def profiles_of(summary: Summary, system: str) -> dict[str, NanoProfile]:
    """Return task → profile for the tasks of the suite that a system has run.

    Raises:
        ConfigError: the benchmark lacks a measure of the suite's tables.
    """
    tasks = suite_tasks(summary.record).get(SUITE, [])
    results = summary.record.results_of(system)
    return {task: NanoProfile.of(results[task].evaluation) for task in tasks if task in results}


def _column(title: str, values: list[float]) -> Column:
    return Column(title=title, values=values, write=points, highest_is_best=True)
