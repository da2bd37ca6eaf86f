"""Finds passages that a language model is shown."""

from collections.abc import Sequence
from typing import TypeAlias

from r2med_ray.demands import Find, Read, Steps
from r2med_ray.first_stage import FirstStage
from r2med_ray.types import DocId, Query, QueryId, Task

Passage: TypeAlias = tuple[DocId, str]
"""A document's id and its text."""


def find_passages(
    task: Task, tool: FirstStage, queries: Sequence[Query], depth: int
) -> Steps[dict[QueryId, list[Passage]]]:
    """Search a task's corpus, read what is found, and return query id → passages, best first.

    Args:
        task: the corpus of this task is searched.
        tool: the first stage that searches.
        queries: the questions.
        depth: the most passages per query.
    """
    run = yield Find(task=task, first_stage=tool, queries=tuple(queries), k=depth)
    doc_ids = frozenset(hit.doc_id for ranking in run.rankings.values() for hit in ranking)
    documents = (yield Read(task=task, doc_ids=doc_ids)) if doc_ids else {}
    return {
        query_id: [(hit.doc_id, documents[hit.doc_id].content) for hit in ranking]
        for query_id, ranking in run.rankings.items()
    }
