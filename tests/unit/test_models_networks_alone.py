"""On a CPU, a vector or a score depends on its text or pair alone, to the last bit."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
import torch
import transformers

from r2med_ray.models.catalog.checkpoints import SparseRow
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.networks.late_interaction import LateInteractionEncoder
from r2med_ray.models.networks.pair_scorers import build_pair_scorer
from r2med_ray.models.networks.sparse_encoders import SparseEncoder
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.types import Document
from tests.unit import tiny_checkpoints
from tests.unit.tasks import WORDS

Network: TypeAlias = Callable[[Sequence[str]], list[bytes]]
"""Texts → the bytes of what each text becomes."""

CATALOG = load_catalog()
TOKEN_BUDGET = 16_384


def texts_of(count: int, seed: int) -> list[str]:
    """Draw texts of 1 to 120 words, so that any two of them would need padding together."""
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(1, 121))) for _ in range(count)]


TEXTS = texts_of(14, seed=1)
OTHERS = texts_of(5, seed=2)


def documents(texts: Sequence[str]) -> list[Document]:
    return [Document(doc_id=str(number), text=text) for number, text in enumerate(texts)]


def dense(row: EncoderRow) -> Network:
    encoder = TaskEncoders(row, device="cpu", token_budget=TOKEN_BUDGET).for_task("t")
    return lambda texts: [vector_D.tobytes() for vector_D in encoder.encode_documents(documents(texts))]


def of_queries(row: EncoderRow) -> Network:
    encoder = TaskEncoders(row, device="cpu", token_budget=TOKEN_BUDGET).for_task("t")
    return lambda texts: [vector_D.tobytes() for vector_D in encoder.encode_queries(texts)]


def encoder_row(folder: Path, **values: object) -> EncoderRow:
    shared = {"name": "tiny", "model": str(folder), "max_length": 256, "dtype": "float32"}
    return EncoderRow.model_validate(shared | values)


def minilm(dtype: str = "float32") -> EncoderRow:
    return CATALOG.encoders["all-MiniLM-L6-v2"].model_copy(update={"dtype": dtype})


def sparse(folder: Path) -> Network:
    config = transformers.BertConfig(**tiny_checkpoints.SMALL, max_position_embeddings=64)
    tokens = tiny_checkpoints.tokenizer(max_length=64)
    model = str(tiny_checkpoints.save(folder, "BertForMaskedLM", config, tokens))
    row = SparseRow(name="s", model=model, max_length=64, dtype="float32")
    encoder = SparseEncoder(row, device="cpu", token_budget=TOKEN_BUDGET)
    return lambda texts: [row.tobytes() for row in encoder.encode_documents(documents(texts)).toarray()]


def late_interaction() -> Network:
    row = CATALOG.late_interaction["minilm-tokens"].model_copy(update={"dtype": "float32"})
    encoder = LateInteractionEncoder(row, device="cpu", token_budget=TOKEN_BUDGET)
    return lambda texts: [tokens_TD.tobytes() for tokens_TD in encoder.encode_documents(documents(texts))]


def scorer(**values: object) -> Network:
    row = RerankerRow.model_validate({"name": "r", "dtype": "float32"} | values)
    scores_pairs = build_pair_scorer(row, CATALOG, device="cpu", token_budget=TOKEN_BUDGET)
    return lambda texts: [np.float32(score).tobytes() for score in scores_pairs.score_pairs(pairs_with(texts))]


def pairs_with(texts: Sequence[str]) -> list[tuple[str, str]]:
    return [("acute fever after a renal lesion", text) for text in texts]


def yes_no(folder: Path) -> Network:
    heads = {"num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 512}
    config = transformers.Qwen3Config(**tiny_checkpoints.SMALL, **heads)
    model = tiny_checkpoints.save(folder, "Qwen3ForCausalLM", config, tiny_checkpoints.tokenizer())
    return scorer(kind="yes-no", model=str(model), prefix="judge : ", suffix=" answer :")


def causal_classifier(folder: Path) -> Path:
    config = transformers.LlamaConfig(**tiny_checkpoints.SMALL, max_position_embeddings=512, num_labels=1)
    return tiny_checkpoints.save(folder, "LlamaForSequenceClassification", config, tiny_checkpoints.tokenizer())


NETWORKS: dict[str, Callable[[Path], Network]] = {
    "mean": lambda folder: dense(encoder_row(tiny_checkpoints.bert(folder), pooling="mean")),
    "last token": lambda folder: dense(encoder_row(tiny_checkpoints.llama(folder), pooling="last")),
    "own code": lambda folder: dense(
        encoder_row(tiny_checkpoints.remote_code(folder / "own"), pooling="encode", trust_remote_code=True)
    ),
    "MiniLM": lambda folder: dense(minilm()),
    "MiniLM's queries": lambda folder: of_queries(minilm()),
    "MiniLM in bfloat16": lambda folder: dense(minilm("bfloat16")),
    "sparse": sparse,
    "late interaction": lambda folder: late_interaction(),
    "cross-encoder": lambda folder: scorer(kind="cross-encoder", model=str(tiny_checkpoints.classifier(folder))),
    "causal classifier": lambda folder: scorer(kind="cross-encoder", model=str(causal_classifier(folder))),
    "yes-no": yes_no,
    "maxsim": lambda folder: scorer(kind="maxsim", encoder="all-MiniLM-L6-v2"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_what_a_text_becomes_depends_on_no_other_text(name: str, tmp_path: Path) -> None:
    network = NETWORKS[name](tmp_path)
    alone = [network([text])[0] for text in TEXTS]

    assert network(TEXTS) == alone
    assert network(TEXTS[::-1]) == alone[::-1]
    assert network([*OTHERS, *TEXTS])[len(OTHERS) :] == alone
    for size in (2, 5):
        in_shards = [network(TEXTS[start : start + size]) for start in range(0, len(TEXTS), size)]
        assert [each for shard in in_shards for each in shard] == alone
    assert len(set(alone)) == len(TEXTS)


@pytest.mark.parametrize("name", NETWORKS)
def test_equal_texts_become_equal_bytes_wherever_they_stand(name: str, tmp_path: Path) -> None:
    network = NETWORKS[name](tmp_path)
    mixed = [text for other in TEXTS for text in (other, TEXTS[0])]

    assert set(network(mixed)[1::2]) == set(network(TEXTS[:1]))


@pytest.mark.parametrize("name", sorted(NETWORKS.keys() - {"own code"}))
def test_what_a_text_becomes_depends_on_no_number_of_threads(name: str, tmp_path: Path) -> None:
    network = NETWORKS[name](tmp_path)
    in_one = network(TEXTS)
    torch.set_num_threads(4)
    try:
        assert network(TEXTS) == in_one
        assert network(TEXTS[:1]) == in_one[:1]
    finally:
        torch.set_num_threads(1)
