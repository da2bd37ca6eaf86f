"""BM25 as a first stage: the terms of every shard, scored with the statistics of the whole corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.corpus.shards import read_ids
from r2med_ray.first_stage import Computing, MadeBy, Maker, ModelFacts, Ties, ToExplain
from r2med_ray.first_stages.bad_documents import find_shards
from r2med_ray.first_stages.common import CommonFirstStage, WantedRetriever
from r2med_ray.first_stages.explaining import bags_of_words
from r2med_ray.indexing.bm25 import BM25Row
from r2med_ray.indexing.bm25_index import BM25Index, TermWeights
from r2med_ray.indexing.keys import COUNTS_FILE, TERMS_FILE, WEIGHTS_FILE, bm25_key, terms_key
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms, num_empty
from r2med_ray.readings import Given
from r2med_ray.retrieval.file_order import row_id
from r2med_ray.retrieval.query_construction import lexical_query
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.storage.listing import made_for
from r2med_ray.types import Document, Query, Task


class TermsMaker(Maker):
    """Cuts documents into terms, and counts what the corpus has to know about them."""

    def __init__(self, analyzer: str) -> None:
        self._analyzer = analyzer

    def make_shard(
        self, task: str, documents: Sequence[Document], rows: Sequence[int] | npt.NDArray[np.int64]
    ) -> Mapping[str, pa.Table]:
        """Return the terms of a shard, one row per term, and its part of the corpus' statistics."""
        terms = ShardTerms.from_texts((document.content for document in documents), self._analyzer)
        return {TERMS_FILE: terms.to_table(), COUNTS_FILE: CorpusStatistics.of_shard(terms).to_table()}


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalFirstStage(CommonFirstStage):
    """BM25. Queries are asked as texts, so nothing is stored of them."""

    row: BM25Row = field(hash=False)

    work: ClassVar[MadeBy] = "tokenize"
    artifact_label: ClassVar[str] = "terms"

    @classmethod
    def resolve(cls, row: BM25Row, wanted: WantedRetriever) -> Self:
        """Return the first stage that a benchmark file asks for."""
        return cls(row=row.with_parameters(k1=wanted.retriever.k1, b=wanted.retriever.b), rules=wanted.rules)

    @property
    def label(self) -> str:
        return self.row.name

    @property
    def published(self) -> str | None:
        return "bm25" if self.row.name == "bm25-r2med" else None

    @property
    def artifact_group(self) -> str:
        return f"{self.rules.bm25_duplicate_rows} {self.row.analyzer}"

    @property
    def ties(self) -> Ties:
        return "file row" if self.rules.bm25_cut else "doc id"

    def settings(self) -> Mapping[str, Json]:
        return {"variant": self.row.describe(), "drop_identical_ids": self.drop_identical_ids}

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {
            "corpus": task.corpus.digest,
            "bm25": self.row.inputs(),
            "compat": self.rules.compat,
            "drop_identical_ids": self.drop_identical_ids,
            **({"cut": "file row"} if self.rules.bm25_cut else {}),
        }

    def model_facts(self) -> ModelFacts:
        return ModelFacts(vectors="sparse")

    def skip_rows(self, corpus: Corpus, shard: CorpusShard) -> tuple[int, ...]:
        """Return duplicate rows; none where R2MED's rules count every row."""
        return () if self.rules.bm25_duplicate_rows else corpus.duplicates_in(shard)

    def shard_key(self, task: str, corpus: Corpus, shard: CorpusShard, device: str) -> ArtifactKey:
        return terms_key(shard, self.skip_rows(corpus, shard), self.row.analyzer)

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        return TermsMaker(self.row.analyzer)

    def gather(self, store: ArtifactStore, task: Task, device: str) -> CorpusStatistics:
        """Return the statistics of the whole corpus, or of the part of it that is counted.

        A variant of Lucene's doesn't count empty documents.
        """
        keys = [self.shard_key(task.name, task.corpus, shard, device) for shard in task.corpus.counted_shards]
        stored = [store.get(key) for key in keys]
        counted = CorpusStatistics.merge(CorpusStatistics.from_table(each.table(COUNTS_FILE)) for each in stored)
        if self.row.counts == "exact":
            return counted
        empty = sum(num_empty(each.table(TERMS_FILE, ["rows"])) for each in stored)
        return replace(counted, num_documents=counted.num_documents - empty)

    def load_index(
        self, store: ArtifactStore, task: Task, shard: CorpusShard, gathered: CorpusStatistics, device: str
    ) -> BM25Index:
        """Return the index of a shard.

        A duplicate row that counts in the statistics is never a hit. Where the order of the file decides among equal
        scores, the index holds ids that begin with the row. The weights of its terms are an artefact of their own.
        """
        skipped = set(self.skip_rows(task.corpus, shard))
        duplicates = set(task.corpus.duplicates_in(shard))
        kept = [
            (row, doc_id)
            for row, doc_id in enumerate(read_ids(store, shard).to_pylist(), start=shard.start_row)
            if row not in skipped
        ]
        return BM25Index(
            self._weights(store, task, shard, gathered, device),
            [row_id(row, doc_id) if self.ties == "file row" else doc_id for row, doc_id in kept],
            gathered,
            self.row,
            hidden=[position for position, (row, _) in enumerate(kept) if row in duplicates],
            keep_zero_scores=self.rules.bm25_zero_scores,
        )

    def _weights(
        self, store: ArtifactStore, task: Task, shard: CorpusShard, gathered: CorpusStatistics, device: str
    ) -> TermWeights:
        """Return the stored weights of a shard's terms. They are made and stored first where they are not there."""
        terms, *counted = (
            self.shard_key(task.name, task.corpus, each, device) for each in (shard, *task.corpus.counted_shards)
        )
        is_counted = shard in task.corpus.counted_shards
        key = bm25_key(terms, counted, self.row.inputs(), is_counted=is_counted)
        artifact = store.find(key)
        if artifact is not None:
            return TermWeights.from_buffer(artifact.read(WEIGHTS_FILE))
        stored = ShardTerms.from_table(store.get(terms).table(TERMS_FILE), self.row.analyzer)
        weights = TermWeights.of_terms(stored, gathered, self.row, is_counted=is_counted)
        with store.create(key) as writer:
            writer.attributes.update(made_for(task.name, self.label))
            writer.write(WEIGHTS_FILE, weights.to_buffer())
        return weights

    def text_asked(self, query: Query) -> str:
        return lexical_query(query, self.rules)

    def prepare(self, store: ArtifactStore, task: Task, queries: Sequence[Query], device: str) -> list[str]:
        """Return one text per query: what BM25 is asked."""
        return [self.text_asked(query) for query in queries]

    def explain(self, asked: ToExplain) -> Given:
        """Return the terms of query and document, with weights if the store has the statistics of the corpus."""
        store, task, device = asked.store, asked.task, asked.computing.device
        is_counted = all(find_shards(store, self, task, task.corpus.counted_shards, device))
        statistics = self.gather(store, task, device) if is_counted else None
        lines = [self.row.describe()]
        if not is_counted:
            lines.append("the weights depend on the terms of the corpus, which the store doesn't have")
        texts = [self.text_asked(query) for query in asked.queries]
        return Given(lines=tuple(lines), terms=tuple(bags_of_words(self.row, texts, asked.document, statistics)))
