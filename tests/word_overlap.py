"""A kind of first stage from outside the package, whose score is a number of shared words.

The score of a document is the number of different words of the query that the document has. Ray's workers can import
the kind. `kinds: [tests.word_overlap.WORD_OVERLAP]` in a models file registers it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.first_stage import Computing, MadeBy, Maker
from r2med_ray.first_stages.common import CommonFirstStage, WantedRetriever
from r2med_ray.first_stages.kinds import FirstStageKind
from r2med_ray.models.catalog.row import Row
from r2med_ray.ranking import best_of_scores
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import Document, Query, Ranking, Task

WORDS_FILE = "words.parquet"


class OverlapRow(Row):
    """The row of the kind. It says how texts become words."""

    ignore_case: bool = False

    def words(self, text: str) -> list[str]:
        return sorted(set((text.lower() if self.ignore_case else text).split()))


class WordsMaker(Maker):
    """A maker that stores the different words of every document."""

    def __init__(self, row: OverlapRow) -> None:
        self._row = row

    def make_shard(
        self, task: str, documents: Sequence[Document], rows: Sequence[int] | npt.NDArray[np.int64]
    ) -> Mapping[str, pa.Table]:
        words = [self._row.words(document.content) for document in documents]
        return {WORDS_FILE: pa.table({"doc_id": [document.doc_id for document in documents], "words": words})}


class OverlapIndex:
    """An index that counts the words that a query shares with the documents of one shard. A count of 0 is no hit."""

    def __init__(self, table: pa.Table) -> None:
        self._doc_ids = table["doc_id"].to_pylist()
        self._words = [frozenset(words) for words in table["words"].to_pylist()]

    def search(self, queries: Sequence[list[str]], k: int) -> list[Ranking]:
        return [best_of_scores(self._scores(query), self._doc_ids, k) for query in queries]

    def _scores(self, query: list[str]) -> npt.NDArray[np.float32]:
        scores = np.array([len(words.intersection(query)) for words in self._words], np.float32)
        scores[scores == 0] = -np.inf
        return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapFirstStage(CommonFirstStage):
    """The first stage of the kind."""

    row: OverlapRow = field(hash=False)

    work: ClassVar[MadeBy] = "tokenize"
    artifact_label: ClassVar[str] = "words"

    @classmethod
    def resolve(cls, row: OverlapRow, wanted: WantedRetriever) -> Self:
        return cls(row=row, rules=wanted.rules)

    @property
    def label(self) -> str:
        return self.row.name

    @property
    def artifact_group(self) -> str:
        return str(self.row.ignore_case)

    def settings(self) -> Mapping[str, Json]:
        return {"ignore_case": self.row.ignore_case}

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {"corpus": task.corpus.digest, "word_overlap": self.row.ignore_case}

    def shard_key(self, task: str, corpus: Corpus, shard: CorpusShard, device: str) -> ArtifactKey:
        return ArtifactKey("words", {"shard": shard.digest, "ignore_case": self.row.ignore_case})

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        return WordsMaker(self.row)

    def load_index(
        self, store: ArtifactStore, task: Task, shard: CorpusShard, gathered: None, device: str
    ) -> OverlapIndex:
        key = self.shard_key(task.name, task.corpus, shard, device)
        return OverlapIndex(store.get(key).table(WORDS_FILE))

    def prepare(self, store: ArtifactStore, task: Task, queries: Sequence[Query], device: str) -> list[list[str]]:
        return [self.row.words(query.text) for query in queries]


WORD_OVERLAP = FirstStageKind(
    noun="word overlap", section="word_overlap", row_class=OverlapRow, resolve=OverlapFirstStage.resolve
)
