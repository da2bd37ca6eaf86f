"""Sparse vectors are those of sentence-transformers and of the formula, and don't depend on the batch."""

from pathlib import Path

import numpy as np
import pytest
import sentence_transformers
import torch
import transformers
from sentence_transformers.base.modules import Router, Transformer
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

from r2med_ray.cuts import Cuts
from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.models.catalog.checkpoints import SparseRow
from r2med_ray.models.networks.sparse_encoders import SparseEncoder
from r2med_ray.types import Document, FloatMatrix
from tests.unit.tiny_checkpoints import MINILM, SMALL, bert, save, tokenizer

TEXTS = [
    "aspirin after a heart attack",
    "fever",
    "a cough in winter, with fever and a sore throat that has lasted for eleven days",
    "insulin lowers glucose",
]
DOCUMENTS = [Document(doc_id=str(number), text=text) for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def splade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = transformers.BertConfig(**SMALL, max_position_embeddings=64)
    return save(tmp_path_factory.mktemp("splade"), "BertForMaskedLM", config, tokenizer(max_length=64))


@pytest.fixture(scope="module")
def documents_only(splade: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose queries are looked up in a table: the weight of a token is its id / 1000."""
    table = SparseStaticEmbedding(tokenizer(max_length=64), torch.arange(SMALL["vocab_size"]) / 1000)
    read = [Transformer(str(splade), transformer_task="fill-mask"), SpladePooling("max", "log1p_relu")]
    folder = tmp_path_factory.mktemp("documents_only")
    router = Router.for_query_document(query_modules=[table], document_modules=read)
    sentence_transformers.SparseEncoder(modules=[router], device="cpu").save_pretrained(str(folder))
    (folder / "config.json").write_bytes((splade / "config.json").read_bytes())
    return folder


def encoder(folder: Path, **changes: object) -> SparseEncoder:
    row = SparseRow.model_validate(
        {"name": "s", "model": str(folder), "max_length": 512, "dtype": "float32"} | changes
    )
    return SparseEncoder(row, device="cpu", token_budget=2048)


def by_formula(folder: Path, text: str) -> FloatMatrix:
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    with torch.inference_mode():
        logits_TV = model(**tokenizer(max_length=64)(text, return_tensors="pt")).logits[0]
    weights: FloatMatrix = torch.log1p(torch.relu(logits_TV)).amax(dim=0).numpy()
    return weights


def test_a_weight_is_the_greatest_log_of_one_plus_relu_over_the_tokens(splade: Path) -> None:
    weights_NV = encoder(splade).encode_documents(DOCUMENTS)

    expected_NV = np.stack([by_formula(splade, text) for text in TEXTS])
    assert weights_NV.dtype == np.float32
    assert weights_NV.indices.dtype == np.int32
    assert np.abs(weights_NV.toarray() - expected_NV).max() < 1e-5


@pytest.mark.parametrize("name", ["splade", "documents_only"])
def test_vectors_are_those_of_sentence_transformers(name: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(name)
    theirs = sentence_transformers.SparseEncoder(str(folder), device="cpu", local_files_only=True)
    ours = encoder(folder)

    for weights_NV, expected in (
        (ours.encode_queries(TEXTS), theirs.encode_query(TEXTS, convert_to_sparse_tensor=False)),
        (ours.encode_documents(DOCUMENTS), theirs.encode_document(TEXTS, convert_to_sparse_tensor=False)),
    ):
        assert np.abs(weights_NV.toarray() - torch.as_tensor(expected).numpy()).max() < 1e-5


def test_a_query_that_is_looked_up_has_an_entry_per_different_token(documents_only: Path) -> None:
    weights_NV = encoder(documents_only).encode_queries(["fever fever", "insulin"])

    # In MiniLM's vocabulary `fever` is 9016 and `insulin` is 22597. Special tokens have no entry.
    assert weights_NV.indices.tolist() == [9016, 22597]
    assert weights_NV.data.tolist() == pytest.approx([9.016, 22.597])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_ties_no_documents_for_a_query_of_one_entry(splade: Path, dtype: str) -> None:
    texts = [Document(doc_id=str(number), text=f"fever {number} and cough") for number in range(200)]

    weights_NV = encoder(splade, dtype=dtype).encode_documents(texts).toarray()

    # The score for a query of one entry is the document's weight of it. As bfloat16, weights between 1 and 2 have one
    # of 128 values, and as float16 one of 1,024.
    entry = int(np.argmax((weights_NV > 0).sum(axis=0)))
    in_half = torch.tensor(weights_NV[:, entry]).to(getattr(torch, dtype)).tolist()
    different = len(set(weights_NV[:, entry].tolist()))
    assert len(set(in_half)) < different
    assert different > 195
    assert np.abs(weights_NV - encoder(splade).encode_documents(texts).toarray()).max() < 0.1


def test_a_dense_encoder_is_refused_instead_of_getting_random_sparse_weights(tmp_path: Path) -> None:
    for folder in (bert(tmp_path), MINILM):
        with pytest.raises(ConfigError, match=r"model 's': .* is no sparse encoder, .* random weights"):
            encoder(folder)


def test_only_the_entries_of_greatest_weight_are_kept(splade: Path) -> None:
    whole = encoder(splade).encode_documents(DOCUMENTS).toarray()
    cut = encoder(splade, max_active_dims=5, query_max_active_dims=2)

    for weights_V, kept_V in zip(whole, cut.encode_documents(DOCUMENTS).toarray(), strict=True):
        assert set(np.flatnonzero(kept_V)) == set(np.argsort(-weights_V)[:5])
    assert np.diff(cut.encode_queries(TEXTS).indptr).tolist() == [2, 2, 2, 2]


def test_en03_length_is_cut_on_each_side_as_its_row_says(splade: Path) -> None:
    short = encoder(splade, max_length=4, query_max_length=3)
    whole = encoder(splade)

    # A cut at 4 tokens leaves [CLS] insulin lowers [SEP], a cut at 3 leaves [CLS] insulin [SEP].
    for cut, expected in (
        (short.encode_documents(DOCUMENTS[3:]), whole.encode_queries(["insulin lowers"])),
        (short.encode_queries(TEXTS[3:]), whole.encode_queries(["insulin"])),
    ):
        assert abs(cut - expected).max() < 1e-5


def test_a_prompt_stands_before_each_text_of_its_side(splade: Path) -> None:
    prompted = encoder(splade, query_prompt="query: ")
    plain = encoder(splade)

    assert abs(prompted.encode_queries(["fever"]) - plain.encode_queries(["query: fever"])).max() < 1e-5
    assert (prompted.encode_documents(DOCUMENTS) != plain.encode_documents(DOCUMENTS)).nnz == 0


@pytest.mark.usefixtures("shared_passes")
def test_en01_padding_changes_no_weight(splade: Path) -> None:
    network = encoder(splade)
    together = network.encode_documents(DOCUMENTS)

    for position, document in enumerate(DOCUMENTS):
        assert abs(network.encode_documents([document]) - together[[position]]).max() < 1e-5


def test_no_texts_give_no_rows(splade: Path) -> None:
    assert encoder(splade).encode_queries([]).shape == (0, SMALL["vocab_size"])


def test_a_model_of_the_hub_without_revision_is_refused_with_what_to_give() -> None:
    row = SparseRow(name="s", model="prithivida/Splade_PP_en_v2", max_length=512)

    with pytest.raises(NotAtHand, match=r"has no revision.*give `revision:`"):
        SparseEncoder(row, device="cpu", token_budget=2048)


def test_what_is_cut_is_counted_with_the_length_that_is_really_read(splade: Path) -> None:
    read = encoder(splade, max_length=100_000, query_max_length=6)
    read.encode_queries(["fever", "a cough in winter and fever"])
    read.encode_documents([Document(doc_id="d", text="fever " * 70)])

    # [CLS] fever [SEP] and [CLS] a cough in winter [SEP], of which two tokens were cut; 72 tokens for 64 positions.
    assert read.take_cuts() == {
        "query": Cuts(texts=2, cut=1, tokens=11, lost=2, lengths=(6,)),
        "document": Cuts(texts=1, cut=1, tokens=72, lost=8, lengths=(64,)),
    }


def test_a_table_of_weights_reads_what_its_tokenizer_reads(documents_only: Path) -> None:
    read = encoder(documents_only, query_max_length=6)
    read.encode_queries(["fever " * 70])

    # The table heeds no length but the tokenizer's 64, and special tokens have no weight.
    assert read.take_cuts() == {"query": Cuts(texts=1, cut=1, tokens=70, lost=6, lengths=(64,))}
