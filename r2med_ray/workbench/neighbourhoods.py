"""Maps of queries and the documents around them, from the vectors that a system searched with; nothing is encoded."""

from collections.abc import Iterator, Sequence

from r2med_ray.evaluation.hard_negatives.neighbourhood import NeighbourhoodMap, Role, neighbourhood
from r2med_ray.first_stages.stored_vectors import document_vectors, query_vector
from r2med_ray.first_stages.vectors import VectorFirstStage
from r2med_ray.pipeline import Ranked
from r2med_ray.retrieval.searches import searches_made
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedSystem
from r2med_ray.types import DocId, QueryId, Task, positives_of, without_controls

MOST_RANKED = 50
"""How many ranked documents a map shows; positives and own hard negatives are shown wherever they rank."""


def neighbourhood_maps(
    store: ArtifactStore,
    task: Task,
    system: ResolvedSystem,
    ranked: Ranked,
    query_ids: Sequence[QueryId],
    device: str,
) -> Iterator[NeighbourhoodMap]:
    """Yield one map per query that was searched for; none if a system isn't one search with one vector per text.

    Args:
        store: has the vectors that the system searched with.
        task: what was searched, with its labels.
        system: the system.
        ranked: what it ranked. The ranks on a map are those of its run, so after reranking.
        query_ids: the queries.
        device: what the vectors were made on.
    """
    searches = searches_made(ranked.rewriting, system.combine)
    [first_stage, *more] = system.first_stages
    if len(searches) != 1 or more or not isinstance(first_stage, VectorFirstStage):
        return
    [search] = searches
    negatives = without_controls(task.hard_negatives)
    every = frozenset[DocId]().union(*negatives.values())
    for query_id in (each for each in query_ids if each not in ranked.rewriting.ranked):
        ranks = {hit.doc_id: rank for rank, hit in enumerate(ranked.run.rankings.get(query_id, ()), start=1)}
        positives, own = positives_of(task.qrels.get(query_id, {})), negatives.get(query_id, {}).keys()
        shown = [*list(ranks)[:MOST_RANKED], *positives, *own]

        def role(doc_id: DocId, positives: set[DocId] = positives, own: Sequence[DocId] = tuple(own)) -> Role:
            if doc_id in positives:
                return "positive"
            return "own" if doc_id in own else "foreign" if doc_id in every else "other"

        yield neighbourhood(
            task.name,
            system.name,
            query_id,
            query_vector(store, first_stage, task, search.queries, query_id, device),
            document_vectors(store, first_stage, task, frozenset(shown), device),
            {doc_id: role(doc_id) for doc_id in shown},
            ranks,
        )
