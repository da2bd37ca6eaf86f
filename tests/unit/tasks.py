"""Tasks of a few texts."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from r2med_ray.benchmark import run_benchmark
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.convert import convert_documents, load_corpus
from r2med_ray.corpus.loading import load_task
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.settings.config import TaskConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedBenchmark
from r2med_ray.types import Document, Query, Task
from r2med_ray.workbench.bench import open_workbench

WORDS = ["fever", "cough", "rash", "heart", "renal", "acute", "chronic", "dose", "trial", "lesion", "nerve"]

TEXTS = ("abc fever", "bcd cough", "aab rash", "hhh fever", "fed", "gag cough", "cafe")


def texts_of_words(count: int, *, seed: int) -> list[str]:
    """Return texts of four words each."""
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, 4)) for _ in range(count)]


def task_of(
    store: ArtifactStore, texts: Sequence[str], *, shards: int, name: str = "Mine", query: str = "abcdefgh"
) -> Task:
    """Return a task with the documents d0, d1, ... and the query q."""
    documents = [Document(doc_id=f"d{number}", text=text) for number, text in enumerate(texts)]
    corpus = load_corpus(convert_documents(documents, store, name=name, documents_per_shard=1, shards=shards))
    return Task(
        name=name,
        suite=name,
        revision="1",
        corpus=corpus,
        queries=(Query(query_id="q", text=query),),
        qrels={"q": {"d0": 1}},
        folder="",
    )


def beir_folder(folder: Path, documents: Sequence[int] = range(len(TEXTS)), *, texts: Sequence[str] = TEXTS) -> Path:
    """Write a collection in BEIR's layout: documents of `texts`, and one query in each of the splits dev and test."""
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": f"d{number}", "title": "", "text": texts[number]} for number in documents]
    (folder / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    asked = {"dev": "fever abc", "test": "cough gag"}
    queries = [{"_id": f"q-{split}", "text": text} for split, text in asked.items()]
    (folder / "queries.jsonl").write_text("".join(f"{json.dumps(query)}\n" for query in queries))
    for split in asked:
        lines = f"query-id\tcorpus-id\tscore\nq-{split}\td0\t1\n"
        (folder / "qrels" / f"{split}.tsv").write_text(lines)
    return folder


def entries_that_share(folder: Path) -> list[TaskConfig]:
    """Return tasks that share documents: two splits of a folder, an equal folder, and a small set beside its parent.

    The small set has d0, d1, d2 and d4 of the parent's d0 to d6. In shards of three documents, its first shard is the
    parent's, and its second shard, d4 alone, is its own. So there are 7 + 1 different documents in shards.
    """
    parent, twin = beir_folder(folder / "parent"), beir_folder(folder / "twin")
    small = beir_folder(folder / "small", [0, 1, 2, 4])
    return [
        TaskConfig(path=str(parent), layout="beir", name="Dev", split="dev"),
        TaskConfig(path=str(parent), layout="beir", name="Test", split="test"),
        TaskConfig(path=str(twin), layout="beir", name="Twin", split="dev"),
        TaskConfig(path=str(small), layout="beir", name="Small", split="dev"),
    ]


def run_in(folder: Path, benchmark: ResolvedBenchmark) -> BenchmarkRecord:
    """Run a benchmark in this process. Its artefacts go to the folder `store` of a folder."""
    with open_workbench(folder / "store", names=benchmark.names, resources=benchmark.config.resources) as bench:
        return run_benchmark(benchmark, bench)


def load_all(store: ArtifactStore, entries: Sequence[TaskConfig]) -> list[Task]:
    """Return tasks in shards of three documents."""
    return [load_task(source, store, documents_per_shard=3) for source in resolve_tasks(entries)]
