"""A first stage over documents, in shard actors on a cluster: converted, encoded and searched as in a benchmark."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from r2med_ray.assembly import Assembly
from r2med_ray.corpus.convert import convert_corpus, load_corpus
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.distributed.stage_parts import Asked
from r2med_ray.protocols import Retriever
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem
from r2med_ray.types import Corpus, Document, Query, Run, Task


class OnCluster:
    """Opens the one first stage of a system on the cluster that this process is connected to.

    Args:
        benchmark: its resources say how the work is cut.
        system: of the benchmark, with one first stage.
        store: where corpora, terms and vectors are kept; every worker must reach it.
        assembly: of the benchmark on the cluster; whoever opened it closes it.
    """

    def __init__(
        self, benchmark: ResolvedBenchmark, system: ResolvedSystem, store: ArtifactStore, assembly: Assembly
    ) -> None:
        self._benchmark = benchmark
        self._system = system
        self._store = store
        self._assembly = assembly

    def open(self, stage: FirstStage, documents: Sequence[Document], task: str) -> Retriever:
        """Store a corpus and return what searches it; the shard actors of an earlier corpus end."""
        self._assembly.release()
        corpus = self._converted(documents)
        opened = Task(name=task, suite=task, revision=corpus.digest, corpus=corpus, queries=(), qrels={}, folder="")
        return _ClusterRetriever(self._assembly, self._system, stage, opened)

    def _converted(self, documents: Sequence[Document]) -> Corpus:
        resources = self._benchmark.config.resources
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file in ("query.jsonl", "qrels.jsonl"):
                (folder / file).touch()  # the layout wants all three; queries come with the search
            with (folder / "corpus.jsonl").open("w", encoding="utf-8") as stream:
                for document in documents:
                    row = {"id": document.doc_id, "title": document.title, "text": document.text}
                    stream.write(json.dumps(row) + "\n")
            source = TaskSource(name="corpus", suite="corpus", folder=folder, layout="r2med")
            artifact = convert_corpus(
                source,
                self._store,
                documents_per_shard=resources.documents_per_shard,
                shards=resources.shards,
            )
        return load_corpus(artifact)


class _ClusterRetriever:
    """Encodes queries where they have no vectors yet, then asks the shard actors."""

    def __init__(self, assembly: Assembly, system: ResolvedSystem, stage: FirstStage, task: Task) -> None:
        self._assembly = assembly
        self._system = system
        self._stage = stage
        self._task = task

    def retrieve(self, queries: Sequence[Query], *, k: int) -> Run:
        task = replace(self._task, queries=tuple(queries))
        self._assembly.prepare([Asked(task=task, stage=self._stage, queries=task.queries)])
        [retriever] = self._assembly.system(task, self._system).retrievers
        return retriever.retrieve(queries, k=k)
