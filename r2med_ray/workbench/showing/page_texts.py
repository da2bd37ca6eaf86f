"""Collects the texts that a report's page shows of single queries, out of the store. No model computes anything."""

from collections.abc import Mapping, Sequence

from r2med_ray.corpus.loading import fetch_documents
from r2med_ray.corpus.shards import held_ids
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.indexing.bm25_index import BM25Index
from r2med_ray.indexing.statistics import ShardTerms
from r2med_ray.pipeline import Ranked
from r2med_ray.reporting.texts import SHOWN, Question, TaskTexts, Written
from r2med_ray.retrieval.searches import searches_of
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedSystem
from r2med_ray.types import DocId, Query, QueryId, Rewriting, Task, positives_of

Systems = Sequence[tuple[ResolvedSystem, Ranked]]


def page_texts(store: ArtifactStore, device: str, task: Task, systems: Systems) -> TaskTexts:
    """Return the texts of a task for the page.

    Args:
        store: has the corpus and what was made of it.
        device: what encoders compute on, which is part of the keys of what they made.
        task: the task.
        systems: the systems that ranked the task, each with what it did.
    """
    shown = {doc_id for _, ranked in systems for query in task.queries for doc_id in _first(ranked, query)}
    relevant = {doc_id for query in task.queries for doc_id in positives_of(task.qrels.get(query.query_id, {}))}
    # The loader has warned of those that the corpus lacks.
    there = held_ids(store, task.corpus, relevant)
    documents = fetch_documents(store, task.corpus, shown | there)
    passages = {doc_id: document.content for doc_id, document in documents.items()}
    return TaskTexts(
        questions={
            query.query_id: Question(text=query.text, answer=query.answer, body_system=query.body_system)
            for query in task.queries
        },
        passages=passages,
        written={system.name: _written(ranked.rewriting) for system, ranked in systems if system.method is not None},
        terms=_terms(store, device, task, systems, passages),
    )


def _first(ranked: Ranked, query: Query) -> list[DocId]:
    return [hit.doc_id for hit in ranked.run.rankings.get(query.query_id, ())[:SHOWN]]


def _written(rewriting: Rewriting) -> dict[QueryId, Written]:
    return {
        query.query_id: Written(
            texts=tuple(expansion.text for expansion in query.expansions),
            reasoning=rewriting.reasoning.get(query.query_id, ()),
        )
        for query in rewriting.queries
    }


def _terms(
    store: ArtifactStore, device: str, task: Task, systems: Systems, passages: Mapping[DocId, str]
) -> dict[str, dict[QueryId, dict[DocId, Mapping[str, float]]]]:
    """Return what each term adds to BM25's score, for the systems that search with BM25."""
    indexes: dict[LexicalFirstStage, BM25Index] = {}
    found: dict[str, dict[QueryId, dict[DocId, Mapping[str, float]]]] = {}
    for system, ranked in systems:
        for first_stage in system.first_stages:
            if isinstance(first_stage, LexicalFirstStage):
                if first_stage not in indexes:
                    indexes[first_stage] = _index(store, device, task, first_stage, passages)
                [search, *_] = searches_of(ranked.rewriting.queries, system.combine)
                for query in search.queries:
                    if query.query_id in ranked.rewriting.ranked:  # an agent made this list
                        continue
                    shown = _first(ranked, query)
                    parts = indexes[first_stage].parts(first_stage.text_asked(query), shown)
                    found.setdefault(system.name, {})[query.query_id] = dict(zip(shown, parts, strict=True))
    return found


def _index(
    store: ArtifactStore, device: str, task: Task, first_stage: LexicalFirstStage, passages: Mapping[DocId, str]
) -> BM25Index:
    """Return an index of the passages alone, with the statistics of the whole corpus."""
    terms = ShardTerms.from_texts(passages.values(), first_stage.row.analyzer)
    statistics = first_stage.gather(store, task, device)
    return BM25Index.build(terms, list(passages), statistics, first_stage.row, is_counted=False)
