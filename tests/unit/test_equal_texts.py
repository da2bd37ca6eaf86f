"""Documents with equal texts tie, and no ranking depends on shards, on the order of a file or on batches."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import transformers

from r2med_ray.corpus.convert import convert_documents, load_corpus
from r2med_ray.first_stage import Computing, ShardedFirstStage
from r2med_ray.first_stages.checkpoints import LateInteractionFirstStage, SparseFirstStage
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.models.catalog.checkpoints import SparseRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query, Run, Task
from r2med_ray.workbench.in_process import InProcess
from tests.unit import tiny_checkpoints

CATALOG = load_catalog()
FLOAT32 = {"dtype": "float32"}
WORDS = ["fever", "cough", "rash", "heart", "renal", "acute", "chronic", "dose", "trial", "lesion", "nerve"]
COPIED = "insulin lowers glucose, and a missed dose after a heart attack is given the next morning"
COPIES = [Document(doc_id=f"copy{number:02}", text=COPIED) for number in range(40)]
OTHERS = [
    Document(doc_id=f"other{number:02}", text=" ".join(random.Random(number).choices(WORDS, k=1 + 5 * number)))
    for number in range(20)
]
QUERIES = (
    Query(query_id="q1", text="insulin lowers glucose after a heart attack"),
    Query(query_id="q2", text="a missed dose is given the next morning"),
)
ORDERS: dict[str, Callable[[list[Document]], list[Document]]] = {
    "copies first": list,
    "copies last": lambda documents: documents[::-1],
    "mixed": lambda documents: random.Random(3).sample(documents, len(documents)),
    "mixed otherwise": lambda documents: random.Random(4).sample(documents, len(documents)),
}
SHARDS = (1, 2, 5)


def sparse(folder: Path) -> SparseFirstStage:
    config = transformers.BertConfig(**tiny_checkpoints.SMALL, max_position_embeddings=128)
    tokens = tiny_checkpoints.tokenizer(max_length=128)
    model = str(tiny_checkpoints.save(folder, "BertForMaskedLM", config, tokens))
    return SparseFirstStage(row=SparseRow(name="s", model=model, max_length=128, **FLOAT32), rules=Rules())


STAGES: dict[str, Callable[[Path], ShardedFirstStage]] = {
    "bm25": lambda folder: LexicalFirstStage(row=BM25_ROWS["bm25"], rules=Rules()),
    "dense": lambda folder: DenseFirstStage(
        row=CATALOG.encoders["all-MiniLM-L6-v2"].model_copy(update=FLOAT32), rules=Rules()
    ),
    "sparse": sparse,
    "late interaction": lambda folder: LateInteractionFirstStage(
        row=CATALOG.late_interaction["minilm-tokens"].model_copy(update=FLOAT32), rules=Rules()
    ),
}


def searched(first_stage: ShardedFirstStage, documents: Sequence[Document], shards: int, folder: Path) -> Run:
    """Rank all documents, out of a store of their own."""
    store = ArtifactStore(str(folder))
    artifact = convert_documents(documents, store, name="t", documents_per_shard=100, shards=shards)
    corpus = load_corpus(artifact)
    assert len(corpus.shards) == shards
    task = Task(name="t", suite="t", revision="1", corpus=corpus, queries=QUERIES, qrels={}, folder="")
    work = InProcess(store, Computing())
    work.prepare_shards([(task, first_stage)])
    work.prepare_queries([(task, first_stage, QUERIES)])
    return work.open_index(task, first_stage).retrieve(QUERIES, k=len(documents))


@pytest.mark.parametrize("name", STAGES)
def test_forty_equal_texts_tie_in_any_shards_and_order(name: str, tmp_path: Path) -> None:
    first_stage = STAGES[name](tmp_path / "checkpoint")
    runs = [
        searched(first_stage, in_order([*COPIES, *OTHERS]), shards, tmp_path / f"{order} {shards}")
        for order, in_order in ORDERS.items()
        for shards in SHARDS
    ]

    assert len(runs) == 12
    assert all(run.rankings == runs[0].rankings for run in runs)
    for ranking in runs[0].rankings.values():
        copies = [hit for hit in ranking if hit.doc_id.startswith("copy")]
        assert len({hit.score for hit in copies}) == 1
        # Equal scores fall by id, descending.
        assert [hit.doc_id for hit in copies] == sorted((document.doc_id for document in COPIES), reverse=True)
