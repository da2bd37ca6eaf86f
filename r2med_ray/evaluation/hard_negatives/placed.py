"""Where a run ranks the positives and the hard negatives of each query.

The notation of this room, for a query q:

    R      its positives: documents with a grade above 0
    H_q    its own hard negatives, those that a pack labels for q
    F_q    foreign ones: the hard negatives of other queries that are not labelled for q, and no positives of q
    Q      the queries with a positive;  Q_h  those of them that have a hard negative of their own
    K      the depth of the rankings; a document that isn't among the first K has no rank
"""

from dataclasses import dataclass

from r2med_ray.errors import DataError
from r2med_ray.ranking import best
from r2med_ray.types import HardNegatives, Qrels, QueryId, Run, positives_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Ranks in one query's ranking, ascending from 1, and how many documents could have one."""

    positives: tuple[int, ...]
    own: tuple[int, ...]
    """Ranks of the query's own hard negatives."""

    foreign: tuple[int, ...]
    """Ranks of foreign hard negatives."""

    num_own: int
    num_foreign: int


def placed(run: Run, qrels: Qrels, negatives: HardNegatives, *, depth: int) -> dict[QueryId, Placed]:
    """Return the ranks of every query with a positive. A query that the run doesn't answer has an empty ranking.

    The ranks are those of the order of `ranking`, whatever the order of the run's mappings and rankings.

    Args:
        run: the rankings.
        qrels: the task's judgements, which know nothing of hard negatives.
        negatives: the labels.
        depth: K; documents below it have no rank.

    Raises:
        DataError: no query with a positive has a hard negative.
    """
    require_labelled(qrels, negatives)
    every = frozenset[str]().union(*negatives.values())
    found = {}
    for query_id, grades in qrels.items():
        relevant = positives_of(grades)
        if not relevant:
            continue
        own = negatives.get(query_id, {}).keys()
        foreign = every - own - relevant
        ranking = best(run.rankings.get(query_id, ()), depth)
        ranks = {hit.doc_id: rank for rank, hit in enumerate(ranking, start=1)}
        found[query_id] = Placed(
            positives=tuple(rank for doc_id, rank in ranks.items() if doc_id in relevant),
            own=tuple(rank for doc_id, rank in ranks.items() if doc_id in own),
            foreign=tuple(rank for doc_id, rank in ranks.items() if doc_id in foreign),
            num_own=len(own),
            num_foreign=len(foreign),
        )
    return found


def require_labelled(qrels: Qrels, negatives: HardNegatives) -> None:
    """Refuse labels that nothing can be measured with.

    Raises:
        DataError: no query with a positive has a hard negative.
    """
    measured = [query_id for query_id, grades in qrels.items() if positives_of(grades)]
    if not any(negatives.get(query_id) for query_id in measured):
        raise DataError(f"none of the {len(measured)} queries with a positive has a hard negative of its own")
