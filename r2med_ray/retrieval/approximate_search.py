"""What an approximate search misses, measured on a sample of queries against exact search over the same vectors."""

import logging
import random
from collections.abc import Sequence
from dataclasses import replace

from r2med_ray.approximations import Approximation
from r2med_ray.demands import Find, Steps
from r2med_ray.retrieval.search import most_found
from r2med_ray.types import Query, Run

logger = logging.getLogger(__name__)

SAMPLE = 100
"""Most queries that are searched for exactly, too."""

SEED = 42


def exact_find(find: Find) -> Find | None:
    """Return an approximate search as an exact one, for a sample of its queries; None for a search that is exact."""
    first_stage = find.first_stage
    if first_stage.work == "nothing" or first_stage.exact is None:
        return None
    return replace(find, first_stage=first_stage.exact, queries=sample_of(find.queries), is_check=True)


def checked(find: Find) -> Steps[Run]:
    """Search, and return a run that says what it missed if the search is approximate. The log says it, too."""
    exact = exact_find(find)
    found: Run
    if exact is None:
        found = yield find
        return found
    found, of_exact = yield find, exact
    missed = approximation(find, found, of_exact)
    logger.log(logging.INFO if missed.is_close else logging.WARNING, "%s: %s", find.task.name, missed)
    return replace(found, approximation=missed)


def sample_of(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return at most `SAMPLE` queries, in their order. The same ids in any order give the same sample."""
    ids = sorted(query.query_id for query in queries)
    chosen = set(random.Random(SEED).sample(ids, min(SAMPLE, len(ids))))
    return tuple(query for query in queries if query.query_id in chosen)


def approximation(find: Find, found: Run, exact: Run) -> Approximation:
    """Return what an approximate search missed.

    Args:
        find: the approximate search.
        found: its run.
        exact: the run of its `exact_find`.
    """
    expected = sum(map(len, exact.rankings.values()))
    hits = sum(
        len({hit.doc_id for hit in ranking} & {hit.doc_id for hit in found.rankings[query_id]})
        for query_id, ranking in exact.rankings.items()
    )
    drops = find.first_stage.drop_identical_ids
    there = {query.query_id: most_found(find.task, query, drop_identical_ids=drops) for query in find.queries}
    # Exact search ranks all that its index holds, so where it ranks fewer, the index lacks the rest.
    short_of = (
        there[query_id] - len(ranking) for query_id, ranking in exact.rankings.items() if len(ranking) < find.k
    )
    lacking = max(short_of, default=0)
    return Approximation(
        search=find.first_stage.label,
        recall=hits / expected if expected else 1.0,
        num_sampled=len(exact.rankings),
        depth=find.k,
        num_queries=len(find.queries),
        num_short=sum(
            len(found.rankings[query_id]) < min(find.k, number - lacking) for query_id, number in there.items()
        ),
    )
