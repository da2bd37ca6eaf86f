"""A task with some of its queries, as a benchmark file chooses them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from r2med_ray.errors import ConfigError
from r2med_ray.settings.query_choice import QueriesField, QueryChoice
from r2med_ray.settings.registry import nearest
from r2med_ray.types import Query, Task


def choices_of(queries: QueriesField | None, tasks: Sequence[str]) -> dict[str, QueryChoice]:
    """Return task → the queries that are chosen, for the tasks of which not all are asked.

    Args:
        queries: what the benchmark file says.
        tasks: the tasks of the benchmark.

    Raises:
        ConfigError: there is no such task, or ids are given for several tasks.
    """
    if queries is None:
        return {}
    if isinstance(queries, int):
        return dict.fromkeys(tasks, queries)
    if isinstance(queries, Mapping):
        for name in queries:
            if name not in tasks:
                raise ConfigError(f"queries: no task {name!r}.{nearest(name, tasks)} Known: {', '.join(tasks)}")
        return dict(queries)
    if len(tasks) > 1:
        raise ConfigError(f"queries: ids need a task, because there are {len(tasks)}, e.g. {{{tasks[0]}: [ID, ID]}}")
    return dict.fromkeys(tasks, queries)


def chosen(queries: Sequence[Query], choice: QueryChoice, task: str) -> tuple[Query, ...]:
    """Return the queries that are chosen, in the order of the task's file.

    Raises:
        ConfigError: the task has no query of an id; gives the nearest id.
    """
    if isinstance(choice, int):
        return tuple(queries[:choice])
    wanted, known = set(choice), dict.fromkeys(query.query_id for query in queries)
    for query_id in choice:
        if query_id not in known:
            raise ConfigError(f"queries: task {task!r} has no query {query_id!r}.{nearest(query_id, known)}")
    return tuple(query for query in queries if query.query_id in wanted)


def with_choice(task: Task, choice: QueryChoice | None) -> Task:
    """Return the task with the queries that are chosen, and their judgements; the whole task for None.

    The task warns that its figures are those of a subset.

    Raises:
        ConfigError: see `chosen`.
    """
    if choice is None:
        return task
    queries = chosen(task.queries, choice, task.name)
    if len(queries) == len(task.queries):
        return task
    qrels = {query.query_id: task.qrels[query.query_id] for query in queries if query.query_id in task.qrels}
    warning = (
        f"only {len(queries)} of {len(task.queries)} queries were asked, as `queries` of the benchmark file says; "
        "the figures are no figures of the whole task"
    )
    judgements = sum(map(len, qrels.values()))
    return replace(
        task,
        queries=queries,
        all_queries=task.queries,
        qrels=qrels,
        warnings=(warning, *task.warnings),
        counts={**task.counts, "queries": len(queries), "qrels": judgements},
        identical_ids=task.identical_ids & {query.query_id for query in queries},
    )
