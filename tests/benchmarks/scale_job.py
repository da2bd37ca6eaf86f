"""One size of `scale`: writes a synthetic task, and runs the stages of the flow over it, in a process of its own.

    python -m tests.benchmarks.scale_job (write | stages | cluster | evaluate) FOLDER DOCUMENTS

It prints the seconds of each stage as JSON. `write` writes the files of a task and a run file in pieces, so its
memory doesn't grow with them. `stages` runs in this process, and `cluster` runs the same stages on Ray.
"""

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import yaml

from r2med_ray.corpus.loading import load_task
from r2med_ray.evaluation.evaluate import evaluate_file
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.trec import read_qrels
from r2med_ray.first_stages.preparation import STAGES
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.settings.config import TaskConfig
from r2med_ray.settings.resources import ResourcesConfig, SearchResources
from r2med_ray.types import Document, FloatMatrix
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.task_sources import find_task
from tests.benchmarks.bench_e0_padding import r2med_lengths
from tests.benchmarks.bench_m1_measures import make_files

PER_SHARD = 5_000
"""Documents of a shard: few, so that the smallest of the sizes has several shards too."""

PIECE = 5_000
"""Documents that are written at once."""

LONGEST = 2_048
VOCABULARY = 200_000
QUERIES, WORDS_OF_QUERY = 100, 100
DEPTH = 100
MEASURES = ("nDCG@10", "AP@100", "R@100", "RR")
RETRIEVERS = {"bm25": ("tokenise", "BM25"), "no-time": ("encode", "vectors")}
"""Retriever → the stage that makes something of the corpus, and the one that indexes and searches it."""


class NoTime:
    """An encoder that takes next to no time: a text's vector is a digest of the text."""

    dim = 64

    def __init__(self, row: EncoderRow, *, device: str, token_budget: int) -> None:
        pass

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=self.dim).digest() for text in texts)
        return np.frombuffer(digests, np.int8).astype(np.float32).reshape(len(texts), self.dim)

    encode_queries = encode_plain

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        return self.encode_plain([document.content for document in documents])


def texts(lengths: Sequence[int], random: np.random.Generator) -> Iterator[str]:
    """Yield texts of words whose frequency falls as 1 / rank."""
    chances = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    drawn = np.searchsorted(chances, random.random(sum(lengths)) * chances[-1]).tolist()
    start = 0
    for length in lengths:
        yield " ".join(f"w{word}" for word in drawn[start : start + length])
        start += length


def write(folder: Path, documents: int) -> None:
    random = np.random.default_rng(documents)
    with (folder / "corpus.jsonl").open("w") as lines:
        for start in range(0, documents, PIECE):
            lengths = r2med_lengths(min(PIECE, documents - start), longest=LONGEST)
            for number, text in enumerate(texts(lengths, random), start=start):
                lines.write(json.dumps({"id": f"d{number}", "text": text}) + "\n")
    queries = [
        {"id": f"q{number}", "text": text} for number, text in enumerate(texts([WORDS_OF_QUERY] * QUERIES, random))
    ]
    judged = [{"q_id": query["id"], "p_id": "d0", "score": 1} for query in queries]
    for name, rows in {"query": queries, "qrels": judged}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    row = {"name": "no-time", "class": "tests.benchmarks.scale_job.NoTime", "max_length": LONGEST}
    (folder / "models.yaml").write_text(yaml.safe_dump({"encoders": [row]}))
    make_files(folder, documents // DEPTH, DEPTH)


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - began


def stages(folder: Path, address: str | None) -> dict[str, float]:
    """Return stage → seconds. What the worklog has of a stage is taken from it."""
    resources = ResourcesConfig(documents_per_shard=PER_SHARD, search=SearchResources(held_shards="none"))
    models, seconds = folder / "models.yaml", dict[str, float]()
    with (
        tempfile.TemporaryDirectory(dir=folder) as store,
        open_workbench(store, address=address, models=models, resources=resources) as bench,
    ):
        if address is None:  # what is imported late is no cost of a document
            few = bench.task("few", documents={"d1": "fever"}, queries={"q1": "fever"})
            for retriever in RETRIEVERS:
                bench.find(few, retriever)
        source = find_task(TaskConfig(path=str(folder), name="scale"))
        with timed(seconds, "convert"):
            task = load_task(source, bench.store, documents_per_shard=PER_SHARD)
        for retriever, (making, searching) in RETRIEVERS.items():
            before = {entry.stage: entry.report.seconds for entry in bench.worklog.entries}
            with timed(seconds, searching):
                bench.find(task, retriever, k=DEPTH, keep=False)
            made = {entry.stage: entry.report.seconds for entry in bench.worklog.entries}
            of_stage = {stage: value - before.get(stage, 0.0) for stage, value in made.items()}
            seconds[making] = sum(value for stage, value in of_stage.items() if stage in STAGES.values())
            seconds[searching] -= sum(of_stage.values())
    return seconds


def evaluate(folder: Path) -> dict[str, float]:
    seconds: dict[str, float] = {}
    with timed(seconds, "evaluate"):
        evaluate_file(folder / "run.trec", read_qrels(folder / "qrels.trec"), [*map(Measure.parse, MEASURES)])
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=("write", "stages", "cluster", "evaluate"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("documents", type=int)
    given = parser.parse_args()
    seconds: dict[str, float] = {}
    match given.work:
        case "write":
            write(given.folder, given.documents)
        case "evaluate":
            seconds = evaluate(given.folder)
        case "stages":
            seconds = stages(given.folder, None)
        case "cluster":
            seconds = {f"{stage} on Ray": value for stage, value in stages(given.folder, "local").items()}
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
