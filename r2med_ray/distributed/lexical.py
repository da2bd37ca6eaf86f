"""INDEX and SEARCH of terms: shards are tokenised once, counted together, and scored with whole-corpus statistics."""

import threading
from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
import ray

from r2med_ray.capacity import Pool
from r2med_ray.corpus.loading import rows_of_table
from r2med_ray.corpus.shards import read_table
from r2med_ray.distributed.progress import Progress, StageReport
from r2med_ray.distributed.search import ShardedRetriever
from r2med_ray.distributed.shard_stream import ShardWork, stream_shards
from r2med_ray.distributed.stage_parts import Asked, Done, Workplace, tasks_of
from r2med_ray.indexing.analysis import ANALYZER
from r2med_ray.indexing.bm25 import BM25Index, BM25Row
from r2med_ray.indexing.keys import COUNTS_FILE, TERMS_FILE, skipped_rows, terms_key
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.retrieval.file_order import Ties, row_id
from r2med_ray.retrieval.query_construction import lexical_query
from r2med_ray.stages.lexical import LexicalStage
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Compat, Corpus, CorpusShard, Query, Task


class ShardTokenizer:
    """Cuts the documents of a shard into terms and stores them, with what the corpus has to know about them."""

    def __init__(self, store: ArtifactStore, analyzer: str) -> None:
        self._store = store
        self._analyzer = analyzer

    def __call__(self, work: ShardWork, table: pa.Table) -> Mapping[str, float]:
        shard = rows_of_table(table, work.shard, skip_rows=work.skip_rows)
        terms = ShardTerms.from_texts((document.content for document in shard.documents), self._analyzer)
        with self._store.create(terms_key(work.shard, work.skip_rows, self._analyzer)) as writer:
            writer.write_table(TERMS_FILE, terms.to_table())
            writer.write_table(COUNTS_FILE, CorpusStatistics.of_shard(terms).to_table())
        return {"documents": len(shard.documents)}


def tokenize_corpora(
    store: ArtifactStore,
    tasks: Sequence[Task],
    compat: Compat,
    pool: Pool,
    *,
    no_progress_timeout_s: int,
    analyzer: str = ANALYZER,
    stop: threading.Event | None = None,
) -> StageReport:
    """Store the terms of every shard that has none of this analyzer yet.

    Raises:
        StageError: a shard failed; the shards that were finished stay.
        StoppedError: `stop` was set; the shards that were finished stay.
    """
    work = [
        ShardWork(task=task.name, shard=shard, skip_rows=rows)
        for task in tasks
        for shard in task.corpus.shards
        for rows in [skipped_rows(task.corpus, shard, compat)]
        if store.find(terms_key(shard, rows, analyzer)) is None
    ]
    documents = sum(item.num_documents for item in work)
    with Progress("tokenize", len(work), documents) as progress:
        for _, numbers in stream_shards(
            "tokenize",
            store,
            work,
            partial(ShardTokenizer, store, analyzer),
            pool=pool,
            no_progress_timeout_s=no_progress_timeout_s,
            stop=stop,
        ):
            progress.add(int(numbers["documents"]))
    return progress.report(stored_before=sum(len(task.corpus.shards) for task in tasks) - len(work))


class LexicalParts:
    """BM25 on a cluster."""

    def __init__(self, workplace: Workplace) -> None:
        self._at = workplace

    def prepare(self, asked: Sequence[Asked[LexicalStage]]) -> list[Done]:
        """Tokenise every shard that has no terms yet."""
        stage = asked[0].stage
        report = tokenize_corpora(
            self._at.store,
            tasks_of(asked),
            stage.compat,
            self._at.pools.tokenize,
            no_progress_timeout_s=self._at.resources.no_progress_timeout_s,
            analyzer=stage.row.analyzer,
            stop=self._at.stop,
        )
        return [("tokenize", stage.label, report)]

    def open(self, task: Task, stage: LexicalStage) -> ShardedRetriever[list[str]]:
        """Start shard actors over a task's terms."""
        drop = stage.drop_identical_ids
        return open_lexical(
            self._at.store, task, stage.row, stage.compat, self._at.pools.search, drop_identical_ids=drop
        )


def open_lexical(
    store: ArtifactStore, task: Task, row: BM25Row, compat: Compat, pool: Pool, *, drop_identical_ids: bool
) -> ShardedRetriever[list[str]]:
    """Start shard actors over a task's terms, which must be stored.

    Args:
        store: where the terms are.
        task: whose corpus is searched.
        row: the variant of BM25.
        compat: under `r2med` duplicate rows count in the statistics, queries are built as published, and the ranking
            is cut in the order of the file, documents without a shared term included.
        pool: of the shard actors.
        drop_identical_ids: leave out a document whose id is the query's.
    """
    corpus = task.corpus
    counts = [
        store.get(terms_key(shard, skipped_rows(corpus, shard, compat), row.analyzer)).table(COUNTS_FILE)
        for shard in corpus.shards
    ]
    statistics = CorpusStatistics.merge(map(CorpusStatistics.from_table, counts))
    return ShardedRetriever(
        f"{row.name} on {task.name}",
        partial(_lexical_queries, compat),
        partial(_load_index, store, corpus, row, compat, ray.put(statistics)),
        corpus.shards,
        pool,
        drop_identical_ids=drop_identical_ids,
        ties=_ties(compat),
    )


def _ties(compat: Compat) -> Ties:
    return "file row" if compat == "r2med" else "doc id"


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
    stored = store.get(terms_key(shard, skipped, row.analyzer)).table(TERMS_FILE)
    terms = ShardTerms.from_table(stored, row.analyzer)
    ids = read_table(store, shard, ["row", "doc_id"])
    rows, doc_ids = ids["row"].to_pylist(), ids["doc_id"].to_pylist()
    left_out = set(skipped)
    duplicates = set(corpus.duplicates_in(shard)) - left_out
    kept = [(number, doc_id) for number, doc_id in zip(rows, doc_ids, strict=True) if number not in left_out]
    hidden = [position for position, (number, _) in enumerate(kept) if number in duplicates]
    held = [row_id(number, doc_id) if _ties(compat) == "file row" else doc_id for number, doc_id in kept]
    return BM25Index(terms, held, ray.get(statistics), row, hidden=hidden, keep_zero_scores=compat == "r2med")
