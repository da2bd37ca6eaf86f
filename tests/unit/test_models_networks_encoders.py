import copy

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer

from r2med_ray.cuts import Cuts
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.models.catalog.encoders import EncoderRow, Prompts
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.networks.encoders import TransformerEncoder, build_encoder
from r2med_ray.types import Document
from tests.unit import tiny_checkpoints
from tests.unit.tasks import WORDS

MINILM = load_catalog().encoders["all-MiniLM-L6-v2"].model_copy(update={"dtype": "float32"})
MIXED = ["fever", "", "acute renal failure after contrast " * 80, "naïve β-blocker, HbA1c=7.2 %", "rash"]
"""Texts from 2 tokens to more than MiniLM's 256."""


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(MINILM, task="Biology", device="cpu")


@pytest.fixture(scope="module")
def reference():
    return SentenceTransformer(str(tiny_checkpoints.MINILM), device="cpu")


def row(folder, **changes):
    values = {"name": "tiny", "model": str(folder), "pooling": "mean", "max_length": 64, "dtype": "float32"}
    return EncoderRow.model_validate(values | {"similarity": "dot"} | changes)


def watched(seen, *, prompts=("", ""), max_length=64, end=None, **changes):
    """Return an encoder that notes the tokens of every text. Its vectors are (number of tokens, sum of token ids)."""
    tokens = tiny_checkpoints.tokenizer(max_length=max_length, end=end)

    def see(features):
        for ids, mask in zip(features["input_ids"], features["attention_mask"], strict=True):
            seen.append(ids[mask.bool()].tolist())

    network = tiny_checkpoints.watched_network(see, tokens)
    return TransformerEncoder(row("unused", max_length=max_length, **changes), network, Prompts(*prompts), 1000)


def cosines(left, right):
    return (left * right).sum(axis=1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)


def test_vectors_are_those_of_sentence_transformers(encoder, reference):
    vectors = encoder.encode_plain(MIXED)

    assert vectors.dtype == np.float32
    assert vectors.flags["C_CONTIGUOUS"]
    assert cosines(vectors, reference.encode(MIXED)).min() >= 0.9999
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


def test_bfloat16_stays_close_to_float32(reference):
    texts = ["fever", "acute renal failure after contrast", "naïve β-blocker, HbA1c=7.2 %"]

    vectors = build_encoder(MINILM, task="Biology", device="cpu", dtype="bfloat16").encode_plain(texts)

    assert vectors.dtype == np.float32
    assert cosines(vectors, reference.encode(texts)).min() >= 0.999


def test_the_best_hundred_are_those_of_sentence_transformers_outside_ties(encoder, reference):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(1, 6))) for _ in range(150)]
    expected = reference.encode(texts)
    vectors = encoder.encode_plain(texts)

    for ours, theirs in zip(vectors[:10] @ vectors.T, expected[:10] @ expected.T, strict=True):
        hundredth = np.sort(theirs)[-100]
        assert set(np.flatnonzero(theirs > hundredth + 1e-5)) <= set(np.argsort(-ours)[:100])
        assert theirs[np.argsort(-ours)[:100]].min() >= hundredth - 1e-5


@pytest.mark.usefixtures("shared_passes")
@pytest.mark.parametrize(
    ("make", "model_class", "pooling", "pool"),
    [
        pytest.param(tiny_checkpoints.bert, "BertModel", "mean", lambda states: states.mean(dim=0), id="mean"),
        pytest.param(tiny_checkpoints.bert, "BertModel", "cls", lambda states: states[0], id="cls"),
        pytest.param(tiny_checkpoints.llama, "LlamaModel", "last", lambda states: states[-1], id="last"),
    ],
)
def test_en01_a_batch_gives_what_each_text_gives_alone(tmp_path, make, model_class, pooling, pool):
    folder = make(tmp_path)
    model = getattr(transformers, model_class).from_pretrained(folder).eval()
    tokens = tiny_checkpoints.tokenizer()
    texts = ["a", "fever " * 30, "acute renal failure", "rash " * 500]

    def alone(text):
        ids = tokens(text, truncation=True, max_length=64, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            return pool(model(ids).last_hidden_state[0]).numpy()

    vectors = build_encoder(row(folder, pooling=pooling), task="t", device="cpu").encode_plain(texts)

    assert cosines(vectors, np.stack([alone(text) for text in texts])).min() >= 0.9999
    assert vectors == pytest.approx(np.stack([alone(text) for text in texts]), abs=1e-4)


@pytest.mark.usefixtures("shared_passes")
@pytest.mark.parametrize(("make", "pooling"), [(tiny_checkpoints.bert, "mean"), (tiny_checkpoints.llama, "last")])
def test_en01_a_short_text_beside_a_long_one_is_finite_in_half_precision(tmp_path, make, pooling):
    encoder = build_encoder(row(make(tmp_path), pooling=pooling), task="t", device="cpu", dtype="bfloat16")

    together = encoder.encode_plain(["a", "fever " * 500])

    assert np.isfinite(together).all()
    assert cosines(together[:1], encoder.encode_plain(["a"]))[0] >= 0.999


@pytest.mark.parametrize("num_words", [1, 61, 62, 63, 640], ids=["1", "max-1", "max", "max+1", "10 x max"])
def test_en03_the_last_kept_token_is_the_end_token(num_words):
    seen = []
    encoder = watched(seen, end="[unused0]", append_eos=True)

    encoder.encode_plain(["fever " * num_words])

    end = tiny_checkpoints.tokenizer().convert_tokens_to_ids("[unused0]")
    assert seen[0].count(end) == 1
    assert seen[0][-1] == end
    # [CLS], the words, [SEP] and the end token are at most 64 tokens
    assert len(seen[0]) == min(num_words + 3, 64)


def test_en03_an_end_token_that_the_tokenizer_writes_is_not_written_twice():
    seen = []
    watched(seen, end="[SEP]", append_eos=True).encode_plain(["fever", "fever " * 640])

    separator = tiny_checkpoints.tokenizer().sep_token_id
    assert [(row.count(separator), row[-1], len(row)) for row in sorted(seen, key=len)] == [
        (1, separator, 3),
        (1, separator, 64),
    ]


def test_en03_a_row_may_name_another_token_than_the_tokenizers_end_token():
    seen = []
    watched(seen, end="[unused0]", append_eos=True, end_token="[unused1]").encode_plain(["fever"])

    tokens = tiny_checkpoints.tokenizer()
    assert seen[0][-1] == tokens.convert_tokens_to_ids("[unused1]")
    assert tokens.convert_tokens_to_ids("[unused0]") not in seen[0]
    with pytest.raises(
        ConfigError, match=r"'tiny': `append_eos` needs an end token, and the tokenizer has no '<gone>'"
    ):
        watched([], end="[unused0]", append_eos=True, end_token="<gone>")


def test_en03_a_row_cannot_append_what_its_tokenizer_lacks():
    with pytest.raises(ConfigError, match=r"'tiny': `append_eos` needs an end token"):
        watched([], append_eos=True)


def test_en05_no_texts_give_no_rows_of_the_right_width(encoder):
    assert encoder.encode_queries([]).shape == (0, 384)
    assert encoder.encode_documents([]).shape == (0, 384)
    assert encoder.encode_plain([]).dtype == np.float32
    assert encoder.token_vectors([]) == []


def test_en07_each_side_has_its_prompt_exactly_once():
    seen = []
    encoder = watched(seen, prompts=("fever ", "cough "))

    encoder.encode_queries(["pain"])
    encoder.encode_documents([Document(doc_id="d", text="pain"), Document(doc_id="t", title="Rash", text="heart")])
    encoder.encode_plain(["pain"])

    decode = tiny_checkpoints.tokenizer().decode
    texts = [decode(ids, skip_special_tokens=True) for ids in seen]
    assert texts == ["fever pain", "cough rash heart", "cough pain", "pain"]


def test_queries_may_be_cut_shorter_than_documents():
    seen = []
    encoder = watched(seen, query_max_length=8)

    encoder.encode_queries(["fever " * 100])
    encoder.encode_documents([Document(doc_id="d", text="fever " * 100)])

    assert [len(ids) for ids in seen] == [8, 64]


@pytest.mark.usefixtures("shared_passes")
def test_rows_stand_in_the_order_of_the_texts_whatever_their_lengths():
    texts = ["fever", "fever " * 40, "", "fever " * 7, "fever " * 40]

    # the number of tokens counts the words, [CLS] and [SEP]
    assert watched([]).encode_plain(texts)[:, 0].tolist() == [3.0, 42.0, 2.0, 9.0, 42.0]


def test_vectors_for_dot_products_keep_their_length():
    assert watched([]).encode_plain(["fever"])[0, 0] == 3.0
    assert np.linalg.norm(watched([], similarity="cosine").encode_plain(["fever"])) == pytest.approx(1)


def test_a_text_that_does_not_fit_into_memory_is_named():
    def see(features):
        if features["input_ids"].numel() > 100:
            raise torch.OutOfMemoryError("CUDA out of memory")

    network = tiny_checkpoints.watched_network(see, tiny_checkpoints.tokenizer())

    with pytest.raises(DataError, match="position 1 "):
        TransformerEncoder(row("unused", max_length=200), network, Prompts("", ""), 1000).encode_plain(
            ["fever", "fever " * 150]
        )


def test_a_text_without_any_token_is_named():
    tokens = copy.deepcopy(tiny_checkpoints.tokenizer())
    tokens.backend_tokenizer.post_processor = None
    encoder = TransformerEncoder(
        row("unused"), tiny_checkpoints.watched_network(lambda features: None, tokens), Prompts("", ""), 1000
    )

    with pytest.raises(DataError, match=r"position 1 .*no tokens: ''"):
        encoder.encode_plain(["fever", ""])


def test_rk01_more_tokens_than_positions_are_cut(tmp_path):
    folder = tiny_checkpoints.bert(tmp_path, positions=16, max_length=int(1e30))
    encoder = build_encoder(row(folder, max_length=512), task="t", device="cpu")

    # [CLS], 14 words and [SEP] fill 16 positions.
    assert encoder.encode_plain(["fever " * 100]) == pytest.approx(encoder.encode_plain(["fever " * 14]), abs=1e-5)


def test_token_vectors_are_those_of_sentence_transformers(encoder, reference):
    expected = reference.encode(MIXED, output_value="token_embeddings")

    for ours, theirs in zip(encoder.token_vectors(MIXED), expected, strict=True):
        unit = theirs / theirs.norm(dim=1, keepdim=True)
        assert ours.dtype == np.float32
        assert ours == pytest.approx(unit.numpy(), abs=1e-4)


def test_token_vectors_see_their_prompt(encoder):
    (with_prompt,) = encoder.token_vectors(["fever"], prompt="acute ")

    assert with_prompt == pytest.approx(encoder.token_vectors(["acute fever"])[0], abs=1e-5)


def test_a_checkpoint_folder_becomes_an_encoder_by_a_row_of_ones_own(tmp_path):
    tiny_checkpoints.bert(tmp_path / "weights")
    (tmp_path / "models.yaml").write_text(
        "encoders: [{name: mine, model: ./weights, pooling: mean, max_length: 64, dtype: float32}]"
    )

    encoder = build_encoder(load_catalog(tmp_path / "models.yaml").encoders["mine"], task="Biology", device="cpu")

    assert encoder.dim == 32
    assert np.linalg.norm(encoder.encode_queries(["fever", "rash"]), axis=1) == pytest.approx(1, abs=1e-6)


def test_what_is_cut_is_counted_on_each_side():
    encoder = watched([], query_max_length=6, max_length=8)
    encoder.encode_queries(["fever", "a cough in winter and fever"])
    encoder.encode_documents([Document(doc_id="d", text="fever " * 10), Document(doc_id="e", text="rash")])

    # With [CLS] and [SEP] the queries have 3 and 8 tokens, the documents 12 and 3.
    assert encoder.take_cuts() == {
        "query": Cuts(texts=2, cut=1, tokens=11, lost=2, lengths=(6,)),
        "document": Cuts(texts=2, cut=1, tokens=15, lost=4, lengths=(8,)),
    }
    assert encoder.take_cuts() == {}


def test_an_end_token_that_every_text_gets_takes_the_place_of_a_token_that_is_lost():
    encoder = watched([], max_length=8, end="[unused0]", append_eos=True)
    encoder.encode_plain(["fever " * 10])

    # [CLS], 5 of the 10 words, [SEP] and the end token are read; 13 tokens would have been.
    assert encoder.take_cuts() == {"query": Cuts(texts=1, cut=1, tokens=13, lost=5, lengths=(8,))}


def test_the_longer_half_of_a_document_that_is_read_as_a_pair_is_cut_and_counted():
    encoder = watched([], max_length=8, document_as_pair=True)
    encoder.encode_documents([Document(doc_id="d", title="rash", text="fever " * 10)])

    # [CLS] rash [SEP], 10 words and [SEP] are 14 tokens.
    assert encoder.take_cuts() == {"document": Cuts(texts=1, cut=1, tokens=14, lost=6, lengths=(8,))}


def test_the_length_that_is_told_is_what_the_checkpoint_allows(encoder):
    encoder.take_cuts()
    encoder.encode_plain(["fever " * 300])

    # MiniLM's tokenizer lets 256 tokens through, whatever a row says.
    assert encoder.take_cuts()["query"] == Cuts(texts=1, cut=1, tokens=302, lost=46, lengths=(256,))
