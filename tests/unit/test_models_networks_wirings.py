"""Each way from a checkpoint to vectors gives the vectors of a forward pass that is written out here.

The weights are random. The reference takes one text at a time, without padding. Ours takes all texts together. Both
are float32.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.models.catalog.encoders import EncoderRow, Prompts
from r2med_ray.models.networks.encoders import TransformerEncoder, build_encoder
from r2med_ray.types import Document
from tests.unit import tiny_checkpoints
from tests.unit.tiny_checkpoints import word_pieces

TEXTS = ["rash", "acute renal failure", "acute renal failure", "fever " * 14, "fever cough " * 40]
"""Texts of one token, two equal texts, a text of 14 tokens, and one of 80, which is more than any limit below."""
MAX_LENGTH = 16
FIRST, END, OTHER_END = 101, 1, 2
"""[CLS], [unused0] and [unused1] in MiniLM's vocabulary. They replace <s>, </s> and <|endoftext|>."""


def row(folder, **changes):
    values = {"name": "tiny", "model": str(folder), "max_length": MAX_LENGTH, "dtype": "float32"}
    return EncoderRow.model_validate(values | changes)


def documents(texts, title=""):
    return [Document(doc_id=str(position), title=title, text=text) for position, text in enumerate(texts)]


def pieces(text):
    tokens = tiny_checkpoints.tokenizer()
    return tokens.convert_tokens_to_ids(tokens.tokenize(text))


def states(model, ids, **inputs):
    """Return the last states of one text, shape (T, D)."""
    with torch.inference_mode():
        return model(torch.tensor([ids]), **inputs).last_hidden_state[0]


def unit(vectors):
    stacked = torch.stack(vectors).float().numpy()
    return stacked / np.linalg.norm(stacked, axis=1, keepdims=True)


def read(folder, architecture):
    return getattr(transformers, f"{architecture}Model").from_pretrained(folder).eval()


@pytest.mark.parametrize(
    ("architecture", "padding_side"),
    [("Mistral", "left"), ("Mistral", "right"), ("GPTNeoX", "left"), ("Gemma", "left"), ("Llama", "right")],
)
def test_en03_a_language_model_reads_the_end_token_last(tmp_path, architecture, padding_side):
    tokens = word_pieces(template="[CLS] $A", end="[unused0]", padding_side=padding_side)
    folder = tiny_checkpoints.language_model(tmp_path, architecture, tokens)
    prompt = "fever: "
    encoder = build_encoder(row(folder, pooling="last", append_eos=True, query_prompt=prompt), task="t", device="cpu")

    model = read(folder, architecture)
    kept = [[FIRST, *pieces(prompt + text)[: MAX_LENGTH - 2], END] for text in TEXTS]
    expected = unit([states(model, ids)[-1] for ids in kept])

    assert [len(ids) for ids in kept] == [5, 7, 7, 16, 16]
    assert encoder.encode_queries(TEXTS) == pytest.approx(expected, abs=1e-5)


def test_qwen3s_own_last_token_is_the_one_that_is_pooled_although_it_is_not_its_end_token(tmp_path):
    tokens = word_pieces(template="$A [unused1]", end="[unused0]", padding_side="left")
    tokens.chat_template = "{{ messages[0]['content'] }}"
    folder = tiny_checkpoints.language_model(tmp_path, "Qwen3", tokens)
    encoder = build_encoder(row(folder, pooling="last"), task="t", device="cpu")

    model = read(folder, "Qwen3")
    kept = [[*pieces(text)[: MAX_LENGTH - 1], OTHER_END] for text in TEXTS]

    assert encoder.encode_plain(TEXTS) == pytest.approx(unit([states(model, ids)[-1] for ids in kept]), abs=1e-5)


@pytest.mark.parametrize("architecture", ["Mistral", "Llama"])
def test_without_the_causal_mask_and_with_the_prompt_left_out_of_the_mean(tmp_path, architecture):
    folder = tiny_checkpoints.language_model(
        tmp_path, architecture, word_pieces(template="[CLS] $A", end="[unused0]", padding_side="left")
    )
    query_prompt, document_prompt = "user fever answer: ", "answer: "
    settings = {"pooling": "mean", "attention": "bidirectional", "exclude_prompt_from_pooling": True}
    encoder = build_encoder(
        row(folder, **settings, query_prompt=query_prompt, document_prompt=document_prompt, query_max_length=12),
        task="t",
        device="cpu",
    )

    model = read(folder, architecture)

    def expected(prompt, max_length):
        vectors = []
        for text in TEXTS:
            ids = [FIRST, *pieces(prompt + text)][:max_length]
            everything = torch.zeros(1, 1, len(ids), len(ids))  # a 4-dimensional mask is used as it is
            own = states(model, ids, attention_mask=everything)[1 + len(pieces(prompt)) :]
            vectors.append(own.mean(dim=0))
        return unit(vectors)

    assert encoder.encode_queries(TEXTS) == pytest.approx(expected(query_prompt, 12), abs=1e-5)
    assert encoder.encode_documents(documents(TEXTS)) == pytest.approx(expected(document_prompt, 16), abs=1e-5)
    # Two texts of the same length need no padding and therefore no mask.
    same_length = ["rash", "cough"]
    alone = np.concatenate([encoder.encode_queries([text]) for text in same_length])
    assert encoder.encode_queries(same_length) == pytest.approx(alone, abs=1e-5)


def test_qwen2_without_the_causal_mask_pools_the_appended_end(tmp_path):
    folder = tiny_checkpoints.language_model(tmp_path, "Qwen2", word_pieces(template="$A", end="[unused0]"))
    settings = {"pooling": "last", "attention": "bidirectional", "append_eos": True}
    encoder = build_encoder(row(folder, **settings), task="t", device="cpu")

    model, tokens = read(folder, "Qwen2"), transformers.AutoTokenizer.from_pretrained(folder)
    expected = []
    for text in TEXTS:
        ids = [*tokens(text)["input_ids"][: MAX_LENGTH - 1], END]
        expected.append(states(model, ids, attention_mask=torch.zeros(1, 1, len(ids), len(ids)))[-1])

    assert encoder.encode_plain(TEXTS) == pytest.approx(unit(expected), abs=1e-5)


def test_a_text_that_is_nothing_but_its_prompt_is_the_mean_of_that(tmp_path):
    folder = tiny_checkpoints.language_model(tmp_path, "Mistral", word_pieces(template="[CLS] $A", end="[unused0]"))
    settings = {"pooling": "mean", "exclude_prompt_from_pooling": True, "document_prompt": "fever cough"}
    encoder = build_encoder(row(folder, **settings), task="t", device="cpu")

    whole = states(read(folder, "Mistral"), [FIRST, *pieces("fever cough")]).mean(dim=0)

    assert encoder.encode_documents(documents(["", "rash"]))[:1] == pytest.approx(unit([whole]), abs=1e-5)


@pytest.fixture(scope="module")
def instructor(tmp_path_factory):
    """A T5 encoder with the modules of Instructor, and the folder in which they are saved."""
    folder = tmp_path_factory.mktemp("instructor")
    torch.manual_seed(0)
    model = SentenceTransformer(
        modules=[
            Transformer(str(tiny_checkpoints.t5(folder / "t5"))),
            Pooling(32, pooling_mode="mean"),
            Dense(32, 24, bias=False, activation_function=torch.nn.Identity()),
            Normalize(),
        ],
        device="cpu",
    )
    model.max_seq_length = MAX_LENGTH
    model.save(str(folder / "saved"))
    model.set_pooling_include_prompt(False)
    return folder / "saved", model


def test_instructor_pools_without_its_prompts(instructor):
    folder, reference = instructor
    prompts = {"query_prompt": "heart fever for retrieval: ", "document_prompt": "cough for retrieval: "}
    excluded = row(folder, pooling="model", exclude_prompt_from_pooling=True, **prompts)
    encoder = build_encoder(excluded, task="t", device="cpu")

    queries = reference.encode(TEXTS, prompt=prompts["query_prompt"])
    answers = reference.encode(TEXTS, prompt=prompts["document_prompt"])

    assert encoder.dim == 24
    assert encoder.encode_queries(TEXTS) == pytest.approx(queries, abs=1e-5)
    assert encoder.encode_documents(documents(TEXTS)) == pytest.approx(answers, abs=1e-5)
    assert encoder.encode_plain(TEXTS) == pytest.approx(reference.encode(TEXTS), abs=1e-5)


def test_instructor_written_out(instructor):
    folder, reference = instructor
    encoder = build_encoder(
        row(folder, pooling="model", exclude_prompt_from_pooling=True, query_prompt="fever for retrieval: "),
        task="t",
        device="cpu",
    )

    model = transformers.T5EncoderModel.from_pretrained(folder).eval()
    expected = []
    for text in TEXTS:
        ids = [*pieces("fever for retrieval: " + text)[: MAX_LENGTH - 1], END]
        own = states(model, ids)[len(pieces("fever for retrieval: ")) :]
        expected.append(reference[2].linear(own.mean(dim=0)).detach())

    assert encoder.encode_queries(TEXTS) == pytest.approx(unit(expected), abs=1e-5)


def test_a_checkpoint_that_leaves_its_prompt_out_by_itself_is_followed(instructor, tmp_path):
    _, reference = instructor
    reference.save(str(tmp_path))

    encoder = build_encoder(row(tmp_path, pooling="model", query_prompt="fever: "), task="t", device="cpu")

    assert encoder.encode_queries(TEXTS) == pytest.approx(reference.encode(TEXTS, prompt="fever: "), abs=1e-5)


@pytest.fixture(scope="module")
def towers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("towers")
    query = tiny_checkpoints.bert(folder / "query")
    article = tiny_checkpoints.bert(folder / "article", seed=1)
    changes = {"model": str(article), "document_model": "", "query_max_length": MAX_LENGTH}
    settings = {"pooling": "cls", "similarity": "dot", "document_as_pair": True, "query_max_length": 6}
    medcpt = row(query, document_model=str(article), r2med=changes, **settings)
    return medcpt, read(query, "Bert"), read(article, "Bert")


def test_en09_queries_and_articles_have_a_checkpoint_each(towers):
    medcpt, query_model, article_model = towers
    encoder = build_encoder(medcpt, task="t", device="cpu")
    begin, end = 101, 102  # [CLS], [SEP]

    queries = [states(query_model, [begin, *pieces(text)[:4], end])[0] for text in TEXTS]
    articles = []
    for text in TEXTS:
        ids = [begin, end, *pieces(text)[: MAX_LENGTH - 3], end]
        kinds = torch.tensor([[0, 0] + [1] * (len(ids) - 2)])
        articles.append(states(article_model, ids, token_type_ids=kinds)[0])

    assert encoder.encode_queries(TEXTS) == pytest.approx(torch.stack(queries).numpy(), abs=1e-5)
    assert encoder.encode_documents(documents(TEXTS)) == pytest.approx(torch.stack(articles).numpy(), abs=1e-5)


def test_en09_an_article_with_a_title_is_a_pair_cut_at_the_longer_one(towers):
    medcpt, _, article_model = towers
    encoder = build_encoder(medcpt, task="t", device="cpu")

    # 16 tokens hold [CLS], two words of title, [SEP], 11 words of text and [SEP].
    ids = [101, *pieces("heart rash"), 102, *pieces("fever " * 11), 102]
    expected = states(article_model, ids, token_type_ids=torch.tensor([[0] * 4 + [1] * 12]))[0]

    (vector,) = encoder.encode_documents(documents(["fever " * 40], title="heart rash"))
    assert vector == pytest.approx(expected.numpy(), abs=1e-5)


def test_under_r2med_the_article_encoder_reads_the_queries_too_and_documents_stay_as_they_are(towers):
    medcpt, _, article_model = towers
    published = medcpt.under("r2med")
    encoder = build_encoder(published, task="t", device="cpu")

    queries = [states(article_model, [101, *pieces(text)[: MAX_LENGTH - 2], 102])[0] for text in TEXTS]

    assert encoder.encode_queries(TEXTS) == pytest.approx(torch.stack(queries).numpy(), abs=1e-5)
    assert encoder.encode_plain(TEXTS) == pytest.approx(torch.stack(queries).numpy(), abs=1e-5)
    key = {"device": "cpu", "side": "document"}
    assert published.encoding_inputs("t", **key) == medcpt.encoding_inputs("t", **key)
    assert published.encoding_inputs("t", device="cpu") != medcpt.encoding_inputs("t", device="cpu")


def test_checkpoints_of_different_sizes_are_refused():
    network = tiny_checkpoints.watched_network(lambda features: None, tiny_checkpoints.tokenizer())
    two = row("o/queries", pooling="cls", document_model="o/articles")

    with pytest.raises(ConfigError, match=r"'tiny': o/queries gives 2 components and o/articles 3; they must agree"):
        TransformerEncoder(two, network, Prompts("", ""), 1000, replace(network, dim=3))


def test_a_table_of_token_vectors_is_read_as_sentence_transformers_reads_it(tmp_path):
    torch.manual_seed(0)
    reference = SentenceTransformer(
        modules=[StaticEmbedding(tiny_checkpoints.tokenizer(), embedding_dim=24)], device="cpu"
    )
    reference.save(str(tmp_path))
    encoder = build_encoder(row(tmp_path, pooling="model", similarity="dot", max_length=1000), task="t", device="cpu")

    assert encoder.encode_plain(TEXTS) == pytest.approx(reference.encode(TEXTS), abs=1e-5)
    table = reference[0].embedding.weight[pieces("acute renal")].detach()
    assert encoder.token_vectors(["acute renal"])[0] == pytest.approx(unit(list(table)), abs=1e-5)


def test_autocast_multiplies_in_float16_and_keeps_the_rest(tmp_path):
    folder = tiny_checkpoints.language_model(tmp_path, "GPTNeoX", word_pieces(template="$A", end="[unused0]"))
    plain = row(folder, pooling="last")
    halves = build_encoder(plain.model_copy(update={"autocast": True}), task="t", device="cpu").encode_plain(TEXTS)

    with torch.autocast("cpu", torch.float16):
        model = read(folder, "GPTNeoX")
        expected = unit([states(model, pieces(text)[:MAX_LENGTH])[-1] for text in TEXTS])

    assert halves == pytest.approx(expected, abs=2e-3)
    assert np.abs(halves - build_encoder(plain, task="t", device="cpu").encode_plain(TEXTS)).max() > 1e-5


def test_weights_that_are_not_in_the_checkpoint_are_not_made_up(tmp_path):
    folder = tiny_checkpoints.bert(tmp_path)
    (folder / "config.json").write_text((folder / "config.json").read_text().replace('layers": 2', 'layers": 3'))

    with pytest.raises(DataError, match=r"encoder 'tiny': 16 weights of BertModel are not in .*encoder\.layer\.2"):
        build_encoder(row(folder, pooling="cls"), task="t", device="cpu")
