"""SEARCH and FUSE for one system: the runs of its first stages, and what approximate searches missed."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

from r2med_ray.approximations import Approximation
from r2med_ray.demands import Find, Steps
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.ranking_arrays import as_arrays
from r2med_ray.retrieval.approximate_search import approximation, exact_find, sample_of
from r2med_ray.retrieval.fusion import fuse, fuse_lists
from r2med_ray.retrieval.searches import combine_searches, searches_made
from r2med_ray.systems import ResolvedSystem
from r2med_ray.types import QueryId, Rewriting, Run, Task, positives_of

NDCG = Measure("nDCG", 10)


def search(
    task: Task, system: ResolvedSystem, rewriting: Rewriting, checks: bool
) -> Steps[tuple[list[Run], tuple[Approximation, ...]]]:
    """Return one run per first stage, and what approximate searches missed if they are checked.

    An agent's rankings need no search.
    """
    k = system.depth
    searches = searches_made(rewriting, system.combine)
    finds = [
        Find(task=task, first_stage=first_stage, queries=search.queries, k=k)
        for first_stage in system.first_stages
        for search in searches
    ]
    asked = [*finds, *(_finds_of_tool(task, system) if checks else ())]
    exact = [exact_find(find) if checks else None for find in asked]
    found: list[Run] = (yield (*asked, *filter(None, exact))) if asked else []
    runs, of_exact = found[: len(finds)], iter(found[len(asked) :])
    per_stage = [runs[start : start + len(searches)] for start in range(0, len(runs), len(searches) or 1)]
    combined = [combine_searches(searches, of_stage, system.combine, k=k) for of_stage in per_stage]
    approximate = [(find, run) for find, run, check in zip(asked, found, exact, strict=False) if check]
    return combined, tuple(_missed(find, near, next(of_exact)) for find, near in approximate)


def _missed(find: Find, near: Run, exact: Run) -> Approximation:
    """Return what an approximate search missed, and what that changes in the measure of the leaderboard."""
    missed = approximation(find, near, exact)
    sampled = {query_id: grades for query_id, grades in find.task.qrels.items() if query_id in exact.rankings}
    if not any(map(positives_of, sampled.values())):
        return missed
    of_near, of_exact = (evaluate(run, sampled, [NDCG]).means[str(NDCG)] for run in (near, exact))
    return replace(missed, ndcg_change=of_near - of_exact)


def first_run(system: ResolvedSystem, rewriting: Rewriting, found: Sequence[Run]) -> Run:
    """Return one ranking per query: an agent's own, or that of the first stages."""
    run = Run(tag=system.name, rankings={})
    if found:
        run = fuse(found, system.config.fusion, tag=system.name, k=system.depth) if system.config.fusion else found[0]
    if not rewriting.ranked:
        return run
    own = {query_id: fuse_lists(lists, k=system.depth) for query_id, lists in rewriting.ranked.items()}
    rankings = own | dict(run.rankings)
    return Run(tag=run.tag, rankings={query.query_id: rankings[query.query_id] for query in rewriting.queries})


def _finds_of_tool(task: Task, system: ResolvedSystem) -> list[Find]:
    """Return a search for the task's own queries with a rewriter's tool, if the tool's index is approximate."""
    tools = [system.tool] if system.tool else []
    finds = [Find(task=task, first_stage=each, queries=sample_of(task.queries), k=system.depth) for each in tools]
    return [find for find in finds if exact_find(find)]


def found_nothing(system: ResolvedSystem, found: Sequence[Run]) -> dict[str, tuple[QueryId, ...]]:
    """Return label of a first stage → the queries that it ranks nothing for, if there are any."""
    empty = {
        first_stage.label: tuple(compress(run.rankings, as_arrays(run.rankings).arrays.lengths == 0))
        for first_stage, run in zip(system.first_stages if found else (), found, strict=True)
    }
    return {label: query_ids for label, query_ids in empty.items() if query_ids}
