"""What a first stage reads of a query and of a document: said by the code that reads them for a benchmark."""

from collections import Counter
from collections.abc import Sequence

from r2med_ray.first_stage import Computing, FirstStage, ShardedFirstStage
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.ranked_lists import ListFirstStage
from r2med_ray.indexing.analyzers import ANALYZERS
from r2med_ray.indexing.bm25 import query_weights
from r2med_ray.indexing.statistics import CorpusStatistics
from r2med_ray.readings import listening
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query, Task
from r2med_ray.workbench.showing.values import Section, Term, Terms

LOADED = "the model was loaded into this process and read the texts"
ORIGINS = {"encode": LOADED, "ask a service": "the service was not asked; this is what it would be sent"}


def first_stage_section(
    first_stage: FirstStage,
    task: Task,
    queries: Sequence[Query],
    document: Document | None,
    store: ArtifactStore,
    computing: Computing,
) -> Section:
    """Return what a first stage is given.

    Args:
        first_stage: the retriever.
        task: is searched.
        queries: one query, as often as it is searched for, each time with the texts that are searched for together.
        document: a document of the corpus, if one is shown.
        store: may have the statistics of the corpus.
        computing: what this process computes with.

    Raises:
        R2MedError: the model isn't here, or can't read the texts.
    """
    if isinstance(first_stage, ListFirstStage):
        return _list(first_stage, task, queries, document)
    if isinstance(first_stage, LexicalFirstStage):
        return _lexical(first_stage, task, queries, document, store, computing.device)
    if first_stage.work == "nothing":
        return Section(arrow="search", part=first_stage.label, lines=("this kind doesn't say what it reads",))
    return _read(first_stage, task, queries, document, store, computing)


def _read(
    first_stage: ShardedFirstStage,
    task: Task,
    queries: Sequence[Query],
    document: Document | None,
    store: ArtifactStore,
    computing: Computing,
) -> Section:
    maker = first_stage.load(store, computing)
    with listening() as heard:
        for query in queries:
            maker.make_queries(task.name, [query], first_stage.rules)
        if document is not None:
            maker.make_shard(task.name, [document], [0])
    lines = [ORIGINS.get(first_stage.work, LOADED)]
    if not heard.readings:
        lines.append("this kind doesn't say what it reads")
    return Section(arrow="search", part=first_stage.label, lines=tuple(lines), readings=tuple(heard.readings))


def _list(first_stage: ListFirstStage, task: Task, queries: Sequence[Query], document: Document | None) -> Section:
    lines = [f"a list that exists already: {first_stage.path(task)}; no text is read"]
    for query in queries[:1]:
        most = max(1, task.corpus.num_rows)
        ranking = first_stage.find(task, [query], most).rankings[query.query_id]
        ids = [hit.doc_id for hit in ranking]
        lines.append(f"the list of query {query.query_id!r} has {len(ids)} documents")
        if document is not None:
            place = f"rank {ids.index(document.doc_id) + 1}" if document.doc_id in ids else "not in the list"
            lines.append(f"document {document.doc_id!r}: {place}")
    return Section(arrow="search", part=first_stage.label, lines=tuple(lines))


def _lexical(
    first_stage: LexicalFirstStage,
    task: Task,
    queries: Sequence[Query],
    document: Document | None,
    store: ArtifactStore,
    device: str,
) -> Section:
    statistics = _statistics(first_stage, task, store, device)
    lines = [first_stage.row.describe()]
    if statistics is None:
        lines.append("the weights depend on the terms of the corpus, which the store doesn't have")
    texts = first_stage.prepare(store, task, queries, device)
    terms = [_query_terms(first_stage, text, statistics) for text in texts]
    if document is not None:
        counts = Counter(ANALYZERS[first_stage.row.analyzer].analyze(document.content))
        found = tuple(Term(term=term, count=count, weight=None) for term, count in counts.items())
        terms.append(Terms(side="document", text=document.content, terms=found))
    return Section(arrow="search", part=first_stage.label, lines=tuple(lines), terms=tuple(terms))


def _query_terms(first_stage: LexicalFirstStage, text: str, statistics: CorpusStatistics | None) -> Terms:
    if statistics is None:
        counts = Counter(ANALYZERS[first_stage.row.analyzer].analyze(text))
        weights: dict[str, tuple[int, float | None]] = {term: (count, None) for term, count in counts.items()}
    else:
        weights = query_weights(text, first_stage.row, statistics)
    terms = tuple(Term(term=term, count=count, weight=weight) for term, (count, weight) in weights.items())
    return Terms(side="query", text=text, terms=terms)


def _statistics(
    first_stage: LexicalFirstStage, task: Task, store: ArtifactStore, device: str
) -> CorpusStatistics | None:
    keys = [first_stage.shard_key(task.name, task.corpus, shard, device) for shard in task.corpus.shards]
    if any(store.find(key) is None for key in keys):
        return None
    return first_stage.gather(store, task, device)
