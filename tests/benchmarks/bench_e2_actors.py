"""E2: what Ray adds to an encoder, and what a second actor gains.

    python -m tests.benchmarks.bench_e2_actors [--small]

    A   a shard is encoded in this process, by the callables that workers call     B   by one actor     C   by two

The encoder has one layer of MiniLM's shape with random weights, so there is little work to hide anything behind. The
shard has 20,000 documents of 80 words. Each side loads the model, reads the shard, and stores the vectors, with one
thread per worker; Ray itself runs before. The artefacts must be the same to the last byte. All take turns in one
process. `--small` has 300 documents and no bar. C needs two idle CPUs.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import ray
import torch
import transformers

from r2med_ray.corpus.convert import convert_documents, load_corpus
from r2med_ray.distributed.preparing import prepare
from r2med_ray.first_stage import Computing
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.models.catalog.devices import set_threads
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.sources import locate
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import Pool
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Task
from r2med_ray.workbench.in_process import InProcess
from tests.benchmarks.bench_e1_encode import texts_of
from tests.benchmarks.findings import Findings
from tests.benchmarks.rounds import Work, print_seconds, seconds_per_round, times_as_fast

WORDS = 80
ROUNDS = 3
COMPUTING = Computing(device="cpu", threads=1)


def one_layer(folder: Path) -> DenseFirstStage:
    """Return a first stage whose encoder has one layer of random weights."""
    minilm = locate(load_catalog().encoders["all-MiniLM-L6-v2"].model, None)
    config = transformers.AutoConfig.from_pretrained(minilm, num_hidden_layers=1)
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(minilm).save_pretrained(folder)
    row = EncoderRow(name="one-layer", model=str(folder), pooling="mean", max_length=256)
    return DenseFirstStage(row=row, rules=Rules())


def task_in(store: ArtifactStore, texts: Sequence[str]) -> Task:
    """Return a task whose corpus is one shard."""
    documents = [Document(doc_id=f"d{number}", text=text) for number, text in enumerate(texts)]
    corpus = load_corpus(convert_documents(documents, store, name="e2", documents_per_shard=len(texts)))
    return Task(name="e2", suite="e2", revision="1", corpus=corpus, queries=(), qrels={}, folder="")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    is_small = parser.parse_args().small
    count = 300 if is_small else 20_000
    set_threads(1)
    ray.init(num_cpus=3, include_dashboard=False, logging_level="ERROR")
    with tempfile.TemporaryDirectory() as folder:
        first_stage = one_layer(Path(folder) / "model")
        stores = {name: ArtifactStore(f"{folder}/{name}") for name in "ABC"}
        texts = texts_of(np.full(count, WORDS).tolist())
        tasks = {name: task_in(store, texts) for name, store in stores.items()}
        [shard] = tasks["A"].corpus.shards
        key = first_stage.shard_key("e2", tasks["A"].corpus, shard, "cpu")

        def encode(name: str, actors: int) -> None:
            stores[name].remove(key.name)
            corpora = [(tasks[name], first_stage)]
            if not actors:
                InProcess(stores[name], COMPUTING).prepare_shards(corpora)
                return
            pool = Pool(actors=actors, cpus=1)
            prepare(stores[name], corpora, [], COMPUTING, pool, no_progress_timeout_s=600)

        contestants: dict[str, Work] = {
            "A": lambda: encode("A", 0),
            "B": lambda: encode("B", 1),
            "C": lambda: encode("C", 2),
        }
        seconds = seconds_per_round(contestants, 1 if is_small else ROUNDS)
        digests = {store.get(key).files["vectors.parquet"].sha256 for store in stores.values()}
        findings = Findings(__file__, small=is_small)
        findings.gate("the three artefacts are the same", holds=len(digests) == 1)
        items = dict.fromkeys("ABC", count)
        print_seconds(seconds, items, "documents")
        findings.add("E2 Ray", times_as_fast(seconds, items, "A", "B"))
        findings.add("E2 actors", times_as_fast(seconds, items, "C", "B"))
        findings.close()


if __name__ == "__main__":
    main()
