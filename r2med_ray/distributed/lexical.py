"""INDEX and SEARCH of terms: shards are tokenised once, counted together, and scored with whole-corpus statistics."""

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
import ray

from r2med_ray.artifacts import ArtifactStore
from r2med_ray.capacity import Pool
from r2med_ray.corpus.loading import rows_of_table
from r2med_ray.corpus.shards import read_table
from r2med_ray.distributed.progress import Progress, StageReport
from r2med_ray.distributed.search import ShardedRetriever
from r2med_ray.distributed.shard_stream import ShardWork, stream_shards
from r2med_ray.indexing.bm25 import BM25Index, BM25Row
from r2med_ray.indexing.keys import COUNTS_FILE, TERMS_FILE, skipped_rows, terms_key
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.retrieval.query_construction import lexical_query
from r2med_ray.types import Compat, Corpus, CorpusShard, Query, Task


class ShardTokenizer:
    """Cuts the documents of a shard into terms and stores them, with what the corpus has to know about them."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        shard = rows_of_table(table, work.shard, skip_rows=work.skip_rows)
        terms = ShardTerms.from_texts(document.content for document in shard.documents)
        with self._store.create(terms_key(work.shard, work.skip_rows)) as writer:
            writer.write_table(TERMS_FILE, terms.to_table())
            writer.write_table(COUNTS_FILE, CorpusStatistics.of_shard(terms).to_table())
        return {"documents": len(shard.documents)}


def tokenize_corpora(
    store: ArtifactStore, tasks: Sequence[Task], compat: Compat, pool: Pool, *, no_progress_timeout_s: int
) -> StageReport:
    """Store the terms of every shard that has none yet.

    Raises:
        StageError: a shard failed; the shards that were finished stay.
    """
    work = [
        ShardWork(task=task.name, shard=shard, skip_rows=rows)
        for task in tasks
        for shard in task.corpus.shards
        for rows in [skipped_rows(task.corpus, shard, compat)]
        if store.find(terms_key(shard, rows)) is None
    ]
    documents = sum(item.num_documents for item in work)
    with Progress("tokenize", len(work), documents) as progress:
        for _, numbers in stream_shards(
            "tokenize",
            store,
            work,
            partial(ShardTokenizer, store),
            pool=pool,
            no_progress_timeout_s=no_progress_timeout_s,
        ):
            progress.add(int(numbers["documents"]))
    return progress.report(stored_before=sum(len(task.corpus.shards) for task in tasks) - len(work))


def open_lexical(
    store: ArtifactStore, task: Task, row: BM25Row, compat: Compat, pool: Pool, *, drop_identical_ids: bool
) -> ShardedRetriever[list[str]]:
    """Start shard actors over a task's terms, which must be stored.

    Args:
        store: where the terms are.
        task: whose corpus is searched.
        row: the variant of BM25.
        compat: under `r2med` duplicate rows count in the statistics, and queries are built as published.
        pool: of the shard actors.
        drop_identical_ids: leave out a document whose id is the query's.
    """
    corpus = task.corpus
    counts = [
        store.get(terms_key(shard, skipped_rows(corpus, shard, compat))).table(COUNTS_FILE) for shard in corpus.shards
    ]
    statistics = CorpusStatistics.merge(map(CorpusStatistics.from_table, counts))
    return ShardedRetriever(
        f"{row.name} on {task.name}",
        partial(_lexical_queries, compat),
        partial(_load_index, store, corpus, row, compat, ray.put(statistics)),
        corpus.shards,
        pool,
        drop_identical_ids=drop_identical_ids,
    )


def _lexical_queries(compat: Compat, queries: Sequence[Query]) -> list[str]:
    return [lexical_query(query, compat) for query in queries]


def _load_index(
    store: ArtifactStore,
    corpus: Corpus,
    row: BM25Row,
    compat: Compat,
    statistics: "ray.ObjectRef[CorpusStatistics]",
    shard: CorpusShard,
) -> BM25Index:
    skipped = skipped_rows(corpus, shard, compat)
    terms = ShardTerms.from_table(store.get(terms_key(shard, skipped)).table(TERMS_FILE))
    ids = read_table(store, shard, ["row", "doc_id"])
    rows, doc_ids = ids["row"].to_pylist(), ids["doc_id"].to_pylist()
    left_out = set(skipped)
    duplicates = set(corpus.duplicates_in(shard)) - left_out
    kept = [(number, doc_id) for number, doc_id in zip(rows, doc_ids, strict=True) if number not in left_out]
    hidden = [position for position, (number, _) in enumerate(kept) if number in duplicates]
    return BM25Index(terms, [doc_id for _, doc_id in kept], ray.get(statistics), row, hidden=hidden)
