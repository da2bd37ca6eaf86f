"""Documents with equal texts tie, and no ranking depends on shards, on the order of a file or on batches."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import transformers

from r2med_ray.corpus.convert import convert_documents, load_corpus
from r2med_ray.corpus.text_survey import with_copies
from r2med_ray.first_stage import Computing, ShardedFirstStage
from r2med_ray.first_stages.checkpoints import LateInteractionFirstStage, SparseFirstStage
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.models.catalog.checkpoints import SparseRow
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query, Run, Task
from r2med_ray.workbench.in_process import InProcess
from tests.unit import tiny_checkpoints
from tests.unit.tasks import WORDS

CATALOG = load_catalog()
FLOAT32 = {"dtype": "float32"}
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
    corpus = with_copies(store, load_corpus(artifact))
    assert len(corpus.shards) == shards
    task = Task(name="t", suite="t", revision="1", corpus=corpus, queries=QUERIES, qrels={}, folder="")
    work = InProcess(store, Computing())
    work.prepare_shards([(task, first_stage)])
    work.prepare_queries([(task, first_stage, QUERIES)])
    return work.open_index(task, first_stage).retrieve(QUERIES, k=len(documents))


def in_all_shards_and_orders(first_stage: ShardedFirstStage, folder: Path) -> list[Run]:
    """Rank all documents in 12 settings. In each of them, all copies have to tie."""
    runs = [
        searched(first_stage, in_order([*COPIES, *OTHERS]), shards, folder / f"{order} {shards}")
        for order, in_order in ORDERS.items()
        for shards in SHARDS
    ]
    assert len(runs) == 12
    for ranking in (ranking for run in runs for ranking in run.rankings.values()):
        copies = [hit for hit in ranking if hit.doc_id.startswith("copy")]
        assert len({hit.score for hit in copies}) == 1
        # Equal scores fall by id, descending.
        assert [hit.doc_id for hit in copies] == sorted((document.doc_id for document in COPIES), reverse=True)
    return runs


@pytest.mark.parametrize("name", STAGES)
def test_forty_equal_texts_tie_in_any_shards_and_order(name: str, tmp_path: Path) -> None:
    runs = in_all_shards_and_orders(STAGES[name](tmp_path / "checkpoint"), tmp_path)

    assert all(run.rankings == runs[0].rankings for run in runs)


def test_forty_equal_texts_tie_although_the_texts_of_a_call_change_each_others_vectors(tmp_path: Path) -> None:
    settings = {"name": "mates", "class": "tests.unit.toy_models.BatchMates", "similarity": "dot", "max_length": 99}
    mates = DenseFirstStage(row=EncoderRow.model_validate(settings), rules=Rules())

    runs = in_all_shards_and_orders(mates, tmp_path)

    # The other texts do depend on their shards, so the copies tie because they are encoded alone.
    assert any(run.rankings != runs[0].rankings for run in runs)


def test_copies_are_encoded_alone_on_a_gpu_and_the_key_says_so(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    documents = [Document(doc_id=name, text=text) for name, text in zip("abcd", ("x", "y", "x", "z"), strict=True)]
    corpus = with_copies(store, load_corpus(convert_documents(documents, store, name="t", documents_per_shard=2)))

    for name in ("dense", "sparse", "late interaction"):
        first_stage = STAGES[name](tmp_path / "checkpoint")

        def alone(device: str) -> list[object]:
            keys = [first_stage.shard_key("t", corpus, shard, device) for shard in corpus.shards]  # noqa: B023
            return [key.inputs.get("alone") for key in keys]

        # The rows 0 and 2 have the text "x", each in a shard of its own.
        assert alone("cuda") == [[0], [2]]
        assert alone("cpu") == [None, None]
