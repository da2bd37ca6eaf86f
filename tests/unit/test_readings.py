"""What is told of a text is what the network reads: the ids that its table of tokens is asked for, text by text."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from r2med_ray.models.catalog.checkpoints import LateInteractionRow, SparseRow
from r2med_ray.models.catalog.encoders import EncoderRow, Prompts
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.services import ApiEncoderRow
from r2med_ray.models.networks.cross_encoders import CrossEncoderScorer
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.models.networks.late_interaction import LateInteractionEncoder
from r2med_ray.models.networks.own_models import OwnEncoders, OwnScorer
from r2med_ray.models.networks.pair_scorers import build_pair_scorer
from r2med_ray.models.networks.remote_code import load_remote_code
from r2med_ray.models.networks.sparse_encoders import SparseEncoder
from r2med_ray.models.networks.yes_no import YesNoScorer
from r2med_ray.models.services.embeddings import ApiEncoder
from r2med_ray.readings import Reading, TextRead, listening
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document
from tests.unit.tiny_checkpoints import SMALL, VOCABULARY, bert, classifier, remote_code, save, tokenizer

QUERIES = ["fever", "acute renal failure after contrast in an old man with a rash"]
DOCUMENTS = [Document(doc_id="d", text="kidney injury " * 9, title="renal"), Document(doc_id="e", text="measles")]
PAIRS = [(query, document.content) for query in QUERIES for document in DOCUMENTS]


@contextmanager
def ids_read() -> Iterator[list[list[int]]]:
    """Note the ids that tables of tokens are asked for; on a CPU each text goes through a network alone."""
    found: list[list[int]] = []

    def note(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if isinstance(module, torch.nn.Embedding) and module.num_embeddings == VOCABULARY:
            found.extend(row.tolist() for row in args[0].reshape(-1, args[0].shape[-1]))

    hook = torch.nn.modules.module.register_module_forward_pre_hook(note)
    try:
        yield found
    finally:
        hook.remove()


def told(read: Callable[[], object]) -> list[Reading]:
    """Return what is told of texts, after a check that exactly these ids were read."""
    with listening() as heard, ids_read() as ids:
        read()
    assert ids
    assert sorted(list(reading.ids or ()) for reading in heard.readings) == sorted(ids)
    for reading in heard.readings:
        assert list(reading.tokens or ()) == tokenizer().convert_ids_to_tokens(list(reading.ids or ()))
    return heard.readings


def encoder_row(folder: Path, **changes: object) -> EncoderRow:
    values = {"name": "tiny", "model": str(folder), "pooling": "mean", "dtype": "float32", "max_length": 12}
    return EncoderRow.model_validate(values | changes)


def read_text(part: TextRead) -> str:
    assert part.read is not None
    return (part.prompt + part.text)[slice(*part.read)]


def test_an_encoder_reads_the_prompt_and_what_is_left_of_the_text(tmp_path: Path) -> None:
    row = encoder_row(bert(tmp_path), query_prompt="find: ", query_max_length=6)
    encoder = build_encoder(row, task="t", device="cpu")
    [short, long] = told(lambda: encoder.encode_queries(["fever", "fever rash cough pain"]))

    assert short.tokens == ("[CLS]", "find", ":", "fever", "[SEP]")
    assert short.parts == (TextRead(side="query", prompt="find: ", text="fever", read=(0, 11)),)
    # 6 tokens: two special ones, two of the prompt and two words. "find: fever rash" has 16 characters.
    assert long.tokens == ("[CLS]", "find", ":", "fever", "rash", "[SEP]")
    assert (long.limit, long.side) == (6, "query")
    [part] = long.parts
    assert part == TextRead(side="query", prompt="find: ", text="fever rash cough pain", read=(0, 16), lost=2)


def test_a_pair_of_title_and_text_says_which_of_them_is_cut(tmp_path: Path) -> None:
    row = encoder_row(bert(tmp_path), document_as_pair=True)
    encoder = build_encoder(row, task="t", device="cpu")
    long, _ = told(lambda: encoder.encode_documents(DOCUMENTS))

    # 12 tokens: three special ones, the title's one, and 8 of the text's 18.
    title, text = long.parts
    assert (title.text, title.lost, read_text(title)) == ("renal", 0, "renal")
    assert (text.lost, read_text(text)) == (10, "kidney injury " * 3 + "kidney injury")


def test_the_packaged_encoder_is_told_too() -> None:
    encoder = build_encoder(load_catalog().encoders["all-MiniLM-L6-v2"], task="t", device="cpu")

    assert [reading.side for reading in told(lambda: encoder.encode_queries(QUERIES))] == ["query", "query"]
    assert [reading.limit for reading in told(lambda: encoder.encode_documents(DOCUMENTS))] == [256, 256]


def test_a_sparse_encoder_is_told(tmp_path: Path) -> None:
    config = transformers.BertConfig(**SMALL, max_position_embeddings=64)
    folder = save(tmp_path, "BertForMaskedLM", config, tokenizer(max_length=64))
    row = SparseRow(name="s", model=str(folder), max_length=8, dtype="float32")
    long, short = told(lambda: SparseEncoder(row, device="cpu", token_budget=999).encode_documents(DOCUMENTS))

    # 8 tokens: two special ones, "renal" and five words of 18.
    assert (long.parts[0].lost, read_text(long.parts[0])) == (13, "renal kidney injury kidney injury kidney")
    assert short.tokens == ("[CLS]", "me", "##as", "##les", "[SEP]")


def test_late_interaction_shows_its_markers_and_what_fills_a_query_up(tmp_path: Path) -> None:
    folder = bert(tmp_path, positions=64, max_length=64)
    weights = {f"bert.{name}": value for name, value in load_file(folder / "model.safetensors").items()}
    weights["linear.weight"] = torch.randn(8, 32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["HF_ColBERT"]}))
    settings = {"query_maxlen": 6, "doc_maxlen": 60, "query_token_id": "[unused0]", "doc_token_id": "[unused1]"}
    (folder / "artifact.metadata").write_text(json.dumps(settings))
    row = LateInteractionRow(name="l", model=str(folder), max_length=8, dtype="float32")
    encoder = LateInteractionEncoder(row, device="cpu", token_budget=999)
    short, long = told(lambda: encoder.encode_queries(QUERIES))

    assert short.tokens == ("[CLS]", "[unused0]", "fever", "[SEP]", "[MASK]", "[MASK]")
    assert long.tokens == ("[CLS]", "[unused0]", "acute", "renal", "failure", "[SEP]")
    assert read_text(long.parts[0]).removeprefix(long.parts[0].prompt) == "acute renal failure"
    [document, _] = told(lambda: encoder.encode_documents(DOCUMENTS))
    assert (document.tokens or ())[:3] == ("[CLS]", "[unused1]", "renal")


def test_a_cross_encoder_shows_both_texts_of_a_pair(tmp_path: Path) -> None:
    row = RerankerRow.model_validate(
        {"name": "c", "kind": "cross-encoder", "model": str(classifier(tmp_path)), "dtype": "float32"}
        | {"max_length": 13, "query_prompt": "q: ", "document_prompt": "d: "}
    )
    readings = told(lambda: CrossEncoderScorer(row, device="cpu").score_pairs(PAIRS))
    query, document = readings[0].parts

    # 13 tokens: three special ones leave 10. "q: fever" has 3, so the document has 7: "d : renal" and 4 words of 18.
    assert {reading.side for reading in readings} == {"pair"}
    assert (query.prompt, query.lost, read_text(query)) == ("q: ", 0, "q: fever")
    assert (document.lost, read_text(document)) == (14, "d: renal kidney injury kidney injury")


def test_a_yes_no_model_shows_all_that_is_around_a_pair(tmp_path: Path) -> None:
    heads = {"num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 256}
    folder = save(tmp_path, "Qwen3ForCausalLM", transformers.Qwen3Config(**SMALL, **heads), tokenizer())
    frame = {
        "prefix": "judge : ",
        "query_prompt": "query : ",
        "document_prompt": " document : ",
        "suffix": " answer :",
    }
    row = RerankerRow.model_validate(
        {"name": "y", "kind": "yes-no", "model": str(folder), "dtype": "float32", "max_length": 16} | frame
    )
    reading, *_ = told(lambda: YesNoScorer(row, device="cpu").score_pairs(PAIRS))
    query, document = reading.parts

    # 16 tokens: two of prefix and two of suffix, two of each prompt. 8 are left: "fever" and 7 of the document's 19.
    assert " ".join(reading.tokens or ()) == (
        "judge : query : fever document : renal kidney injury kidney injury kidney injury answer :"
    )
    assert (query.prompt, query.lost, read_text(query)) == ("judge : query : ", 0, "judge : query : fever")
    assert (document.prompt, document.after, document.lost) == (" document : ", " answer :", 12)
    assert read_text(document) == " document : renal kidney injury kidney injury kidney injury"


def test_maxsim_reads_the_texts_of_a_pair_apart() -> None:
    catalog = load_catalog()
    scorer = build_pair_scorer(catalog.reranker("maxsim-minilm"), catalog, device="cpu")  # type: ignore[arg-type]
    readings = told(lambda: scorer.score_pairs(PAIRS[:1]))

    assert [reading.side for reading in readings] == ["query", "document"]


def test_a_checkpoints_own_code_is_said_to_read_itself(tmp_path: Path) -> None:
    values = {"pooling": "encode", "trust_remote_code": True, "query_prompt": "find: ", "max_length": 6}
    row = encoder_row(remote_code(tmp_path / "own"), **values)
    encoder = load_remote_code(row, "cpu", "float32", token_budget=999)(Prompts(query="find: ", document=""))
    with listening() as heard:
        encoder.encode_queries(["fever rash cough pain"])

    [reading] = heard.readings
    assert reading.tokens == ("[CLS]", "find", ":", "fever", "rash", "[SEP]")
    assert reading.parts[0].lost == 2
    assert "own code" in reading.remarks[0]


def test_a_class_of_the_users_is_said_to_read_itself() -> None:
    values = {"name": "own", "class": "tests.unit.toy_models.LetterCounts", "max_length": 9, "query_prompt": "b"}
    encoders = OwnEncoders(EncoderRow.model_validate(values), device="cpu", token_budget=9)
    scorer = OwnScorer(
        RerankerRow.model_validate({"name": "own", "class": "tests.unit.toy_models.SameLetters"}),
        device="cpu",
        token_budget=9,
    )
    with listening() as heard:
        encoders.with_prompts(Prompts(query="b", document="")).encode_queries(["abc"])
        scorer.score_pairs([("a", "b")])

    text, pair = heard.readings
    assert text.parts == (TextRead(side="query", prompt="b", text="abc", read=None, lost=None),)
    assert (text.tokens, text.ids) == (None, None)
    assert [part.text for part in pair.parts] == ["a", "b"]


def test_a_service_that_is_not_asked_says_what_it_would_be_sent(tmp_path: Path) -> None:
    words = Tokenizer(WordLevel({"?": 0, "fever": 1, "rash": 2}, unk_token="?"))
    words.pre_tokenizer = WhitespaceSplit()
    words.save(str(tmp_path / "tokenizer.json"))
    row = ApiEncoderRow.model_validate(
        {"name": "m", "model": "m", "base_url": "http://127.0.0.1:9/v1", "dimension": 3, "tokenizer": str(tmp_path)}
        | {"max_length": 2, "max_input_tokens": 9, "batch_tokens": 9, "batch_texts": 2, "key_variable": "NO_SUCH_KEY"}
        | {"query_body": {"input_type": "query"}}
    )
    encoder = ApiEncoder(row, ArtifactStore(str(tmp_path / "store")), asks=False)
    with listening() as heard:
        vectors = encoder.encode_queries(["fever rash cough"])

    [reading] = heard.readings
    assert not vectors.any()
    assert (reading.tokens, reading.limit) == (("fever", "rash"), 2)
    assert reading.parts == (TextRead(side="query", text="fever rash cough", read=(0, 10), lost=1),)
    assert reading.remarks == ('sent with {"input_type": "query"}',)
    assert not (tmp_path / "store").exists()


def test_only_the_first_text_of_each_batch_is_made_for_who_asks_for_one(tmp_path: Path) -> None:
    encoder = build_encoder(encoder_row(bert(tmp_path)), task="t", device="cpu")
    with listening(most=1) as heard:
        encoder.encode_queries(QUERIES)
        encoder.encode_documents(DOCUMENTS)
    encoder.encode_queries(["nobody listens"])

    assert [reading.parts[0].text for reading in heard.readings] == [QUERIES[0], DOCUMENTS[0].content]
