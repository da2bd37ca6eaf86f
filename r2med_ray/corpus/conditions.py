"""The conditions of a task with hard negatives, each a task of its own with the same queries and judgements.

| condition          | what is searched                                                                             |
|--------------------|----------------------------------------------------------------------------------------------|
| `base`             | the corpus: the task as it is                                                                |
| `NAME+hn-own`      | for each query, the corpus and the query's own hard negatives                                |
| `NAME+hn-all`      | the corpus and the hard negatives of all queries                                             |
| `..-all-reindexed` | the same, with BM25's statistics over both; in all others they are the corpus' alone         |
| `NAME+hn-pairs`    | for each query, its positives and its own hard negatives alone, so that nothing is cut off   |

Controls, passages that hard negatives are compared with, are in `pairs` alone.

The shards of the corpus are the same in all conditions, so what was made of them is used again; only the passages of
the pack are new, and for `pairs` the positives and the hard negatives that the corpus has. No score depends on the
other documents that are searched, so `own` is `all` in which every query excludes the hard negatives that are foreign
to it. The search goes so much deeper that its ranking is the one of a search without them.

A pack may also name documents of the corpus, as mined negatives and contrasts do. They are searched in every
condition, because they are part of the task; `pairs` has no others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.corpus.convert import convert_documents, load_corpus
from r2med_ray.corpus.loading import fetch_documents
from r2med_ray.corpus.packs import Pack
from r2med_ray.corpus.shards import locate
from r2med_ray.errors import DataError
from r2med_ray.settings.hard_negatives import Condition, with_condition
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import fingerprint
from r2med_ray.types import DocId, Document, Query, Task, positives_of


def with_hard_negatives(
    task: Task, pack: Pack, store: ArtifactStore, conditions: Sequence[Condition], *, documents_per_shard: int
) -> list[Task]:
    """Return the task with its labels, and then its conditions.

    Args:
        task: the task as it is loaded.
        pack: its hard negatives.
        store: has the corpus, and gets the passages of the pack.
        conditions: which ones, apart from `base`.
        documents_per_shard: of the shards that are added.

    Raises:
        DataError: a passage has an id of the corpus, or the text of a positive of its query (names both); the corpus
            lacks a document that the pack names, or has another text of it; or the pack has controls alone, and
            conditions beside `pairs` are asked for.
    """
    there = _documents(task, pack, store)
    _require_other_texts(task, pack, there)
    start = task.corpus.num_rows
    hard = pack.without_controls()
    if not hard.negatives and {*conditions} != {"pairs"}:
        raise DataError(
            f"hard negatives of {task.name}: the pack has controls alone, which are no hard negatives; add a pack of "
            "hard negatives, or set `conditions: [pairs]`"
        )
    labelled = replace(
        task,
        hard_negatives=pack.negatives,
        contrasts=pack.contrasts,
        counts={**task.counts, **pack.counts},
        warnings=(*task.warnings, *pack.warnings),
    )
    packs = {condition: pack if condition == "pairs" else hard for condition in conditions}
    brought = dict.fromkeys(used.documents for used in packs.values() if used.documents)
    added = {documents: _added(task, documents, store, start, documents_per_shard) for documents in brought}
    made = []
    for condition, used in packs.items():
        new = added.get(used.documents)
        key, shards = (new.key, new.shards) if new else (task.corpus.key, ())
        if condition == "pairs":
            first = start + sum(shard.num_rows for shard in shards)
            shards += _added(task, list(there.values()), store, first, documents_per_shard).shards
        else:
            shards = (*task.corpus.shards, *shards)
        counted = None if condition == "all-reindexed" else task.corpus.shards
        made.append(_condition(task, condition, _corpus(task.corpus, key, shards, counted=counted), used, there))
    return [labelled, *made]


def _condition(task: Task, condition: Condition, corpus: Corpus, pack: Pack, there: Iterable[DocId]) -> Task:
    passages = frozenset(document.doc_id for document in pack.documents)
    searched = passages | frozenset(there) if condition == "pairs" else passages

    def asked(query: Query) -> Query:
        if condition in ("all", "all-reindexed"):
            return query
        kept = set(pack.negatives.get(query.query_id, ()))
        if condition == "pairs":
            kept |= positives_of(task.qrels.get(query.query_id, {}))
        return replace(query, excluded=query.excluded | (searched - kept))

    return replace(
        task,
        name=with_condition(task.name, condition),
        suite=with_condition(task.suite, condition),
        corpus=corpus,
        queries=tuple(map(asked, task.queries)),
        ranked_lists={},
        warnings=(),
        counts={"rows": corpus.num_rows, "documents": corpus.num_documents, "queries": len(task.queries)},
        identical_ids=task.identical_ids | {query.query_id for query in task.queries if query.query_id in passages},
        same_texts=() if condition == "pairs" else task.same_texts,
    )


def _corpus(
    base: Corpus, key: str, shards: Sequence[CorpusShard], *, counted: tuple[CorpusShard, ...] | None
) -> Corpus:
    """Return the corpus of some shards, whose digest also says what BM25 counts."""
    digests = [[shard.digest for shard in part] for part in ([shards] if counted is None else [shards, counted])]
    return Corpus(
        key=key,
        digest=fingerprint(digests),
        shards=tuple(replace(shard, index=index) for index, shard in enumerate(shards)),
        counted=counted,
        duplicate_rows=base.duplicate_rows,
        copied_rows=base.copied_rows,
    )


def _added(
    task: Task, documents: Sequence[Document], store: ArtifactStore, start_row: int, documents_per_shard: int
) -> Corpus:
    """Return documents as shards, whose rows come after those of the task's corpus."""
    name = f"hard negatives of {task.name}"
    artifact = convert_documents(
        documents, store, name=name, documents_per_shard=documents_per_shard, start_row=start_row
    )
    return load_corpus(artifact, start_row=start_row)


def _documents(task: Task, pack: Pack, store: ArtifactStore) -> dict[DocId, Document]:
    """Return the positives of all queries and the hard negatives that the corpus has, by id.

    The corpus must have no passage that the pack brings, and every document that the pack names.
    """
    relevant = set[DocId]().union(*map(positives_of, task.qrels.values()))
    passages = {document.doc_id for document in pack.documents}
    there: set[DocId] = set()
    for shard, doc_ids in locate(store, task.corpus, relevant | passages | pack.in_corpus.keys()):
        if taken := [doc_id for doc_id in doc_ids if doc_id in passages]:
            raise DataError(
                f"hard negatives of {task.name}: passage {taken[0]!r} has the id of a document of the corpus "
                f"(shard {shard.index}); a pack brings passages of its own"
            )
        there.update(doc_ids)
    found = dict(sorted(fetch_documents(store, task.corpus, there).items()))
    for doc_id, named in pack.in_corpus.items():
        if doc_id not in found:
            raise DataError(f"{named.where}: document {doc_id!r} is not in the corpus of {task.name}")
        if named.text and named.text != found[doc_id].content:
            raise DataError(
                f"{named.where}: document {doc_id!r} has another text in the corpus of {task.name}, whose title and "
                f"text begin {found[doc_id].content[:80]!r}; the pack was made from another version of the corpus"
            )
    return found


def _require_other_texts(task: Task, pack: Pack, positives: dict[DocId, Document]) -> None:
    passages = positives | {document.doc_id: document for document in pack.documents}
    for query_id, negatives in pack.negatives.items():
        grades = task.qrels.get(query_id, {})
        texts = {positives[name].content: name for name, grade in grades.items() if grade > 0 and name in positives}
        for doc_id in negatives:
            if (positive := texts.get(passages[doc_id].content)) is not None:
                raise DataError(
                    f"hard negatives of {task.name}: query {query_id!r}: passage {doc_id!r} has the text of "
                    f"{positive!r}, which is a positive of the query"
                )
