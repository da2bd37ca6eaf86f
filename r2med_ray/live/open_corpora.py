"""The texts of a corpus and its indexes, held open between questions."""

import threading
from collections.abc import Callable, Iterable, Sequence

from r2med_ray.corpora import Corpus
from r2med_ray.corpus.shards import from_table, read_table
from r2med_ray.demands import Find
from r2med_ray.errors import DataError
from r2med_ray.first_stage import Computing, Maker, ShardedFirstStage
from r2med_ray.first_stages.checkpoint_making import TokenMaker
from r2med_ray.first_stages.making import failing_as, make_queries
from r2med_ray.first_stages.preparation import STAGES, QuerySet, queries_left
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.sentences import Shares
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import DocId, Document, Run, Task
from r2med_ray.workbench.in_process import InProcess, PlainIndex


class OpenTexts:
    """The documents of a corpus, in memory.

    Raises:
        ArtifactError: a shard is missing or damaged.
    """

    def __init__(self, store: ArtifactStore, corpus: Corpus) -> None:
        self._tables = [read_table(store, shard) for shard in corpus.shards]
        self._places = {
            doc_id: (number, row)  # the last row of an id counts, as in `corpus.loading.fetch_documents`
            for number, table in enumerate(self._tables)
            for row, doc_id in enumerate(table["doc_id"].to_pylist())
        }

    def read(self, doc_ids: Iterable[DocId]) -> dict[DocId, Document]:
        """Return the documents of some ids.

        Raises:
            DataError: the corpus lacks an id.
        """
        found = {}
        for doc_id in doc_ids:
            if doc_id not in self._places:
                raise DataError(f"document {doc_id!r} is not in the corpus")
            number, row = self._places[doc_id]
            [found[doc_id]] = from_table(self._tables[number].slice(row, 1))
        return found


class OpenIndexes:
    """The indexes of several corpora, and the models that read questions for them.

    Args:
        store: what was made of the corpora is in it.
        scratch: a store of its own for what is made of questions. Nothing of a question stays there.
        computing: what this process computes with.
    """

    def __init__(self, store: ArtifactStore, scratch: ArtifactStore, computing: Computing) -> None:
        self._store = store
        self._scratch = scratch
        self._computing = computing
        self._indexes: dict[tuple[str, ShardedFirstStage], PlainIndex] = {}
        self._makers: dict[tuple[str, str], tuple[Maker, threading.Lock]] = {}
        self._kept: set[str] = set()

    def open(self, task: Task, first_stage: ShardedFirstStage) -> None:
        """Open an index, unless it is open, and load the model that reads questions.

        What is stored of the task's own questions is taken over, so that they are searched for as in a benchmark.

        Raises:
            ArtifactError: something of the corpus is not stored.
        """
        if (task.name, first_stage) in self._indexes:
            return
        own = blocks(task.all_queries or task.queries)
        keys = [first_stage.queries_key(task.name, block, self._computing.device) for block in own]
        for key in filter(None, keys):
            stored = self._store.find(key)
            if stored is not None and key.name not in self._kept:
                with self._scratch.create(key) as writer:
                    for name in stored.files:
                        writer.write_table(name, stored.table(name))
                self._kept.add(key.name)
        group = group_of(first_stage)
        if any(keys) and group not in self._makers:
            self._makers[group] = first_stage.load(self._scratch, self._computing), threading.Lock()
        opened = InProcess(self._store, self._computing).open_index(task, first_stage, query_store=self._scratch)
        self._indexes[task.name, first_stage] = opened

    def find(self, find: Find) -> Run:
        """Return what a search finds; its index is open.

        Raises:
            StageError: a model can't read the question.
        """
        first_stage = find.first_stage
        if first_stage.work == "nothing":
            return first_stage.find(find.task, find.queries, find.k)
        index = self._indexes[find.task.name, first_stage]
        key = first_stage.queries_key(find.task.name, find.queries, self._computing.device)
        if key is None:
            return index.retrieve(find.queries, k=find.k, among=find.among)
        maker, turn = self._makers[group_of(first_stage)]
        with turn:  # a tokenizer serves one thread at a time, and two visitors may ask the same
            left = queries_left(
                self._scratch, [QuerySet(find.task, first_stage, find.queries)], self._computing.device
            )
            try:
                for work in left.work if left else ():
                    with failing_as(STAGES[first_stage.work], work.unit):
                        make_queries(self._scratch, maker, work, self._computing)
                return index.retrieve(find.queries, k=find.k, among=find.among)
            finally:
                if key.name not in self._kept:
                    self._scratch.remove(key.name)

    def explaining(self, find: Find) -> Callable[[Sequence[Document]], list[Shares]] | None:
        """Return what tells the shares of sentences in the scores of a search; None if its model can't."""
        opened = None if find.first_stage.work == "nothing" else self._makers.get(group_of(find.first_stage))
        maker, turn = opened or (None, None)
        if turn is None or not isinstance(maker, TokenMaker):
            return None

        def explain(documents: Sequence[Document]) -> list[Shares]:
            with turn:
                return maker.sentence_shares(find.queries[0], documents)

        return explain


def group_of(first_stage: ShardedFirstStage) -> tuple[str, str]:
    """Return what first stages share that one model prepares corpora and queries for."""
    return type(first_stage).__name__, first_stage.artifact_group
