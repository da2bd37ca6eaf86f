import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder

from r2med_ray.cuts import Cuts
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.networks.cross_encoders import CrossEncoderScorer
from tests.unit import tiny_checkpoints

QUERIES = ["fever and rash after travel", "acute renal failure"]
DOCUMENTS = ["measles", "contrast nephropathy " * 9, "bone density trial cohort", "heart " * 700, ""]
PAIRS = [(query, document) for query in QUERIES for document in DOCUMENTS]


def scorer(folder, **changes):
    values = {"name": "tiny", "kind": "cross-encoder", "model": str(folder), "dtype": "float32"}
    return CrossEncoderScorer(RerankerRow.model_validate(values | changes), device="cpu")


def one_at_a_time(folder, **options):
    """Return the reference scores: raw logits of sentence-transformers, pair by pair, without padding."""
    model = CrossEncoder(str(folder), device="cpu", activation_fn=torch.nn.Identity(), **options)
    return np.array([model.predict([pair])[0] for pair in PAIRS])


@pytest.fixture(scope="module")
def one_class(tmp_path_factory):
    return tiny_checkpoints.classifier(tmp_path_factory.mktemp("one_class"))


@pytest.fixture(scope="module")
def tiny(one_class):
    return scorer(one_class)


@pytest.fixture(scope="module")
def two_classes(tmp_path_factory):
    return tiny_checkpoints.classifier(tmp_path_factory.mktemp("two_classes"), classes=2)


def test_scores_are_the_logits_of_sentence_transformers(one_class, tiny):
    expected = one_at_a_time(one_class)

    scores = tiny.score_pairs(PAIRS)

    assert all(type(score) is float for score in scores)
    assert scores == pytest.approx(expected, abs=1e-5)
    assert np.array_equal(np.argsort(scores), np.argsort(expected))


@pytest.mark.usefixtures("shared_passes")
def test_padding_changes_no_score(one_class):
    assert scorer(one_class).score_pairs(PAIRS) == pytest.approx(one_at_a_time(one_class), abs=1e-5)


def test_half_precision_keeps_the_scores_close(one_class, tiny):
    expected = tiny.score_pairs(PAIRS)

    scores = scorer(one_class, dtype="bfloat16").score_pairs(PAIRS)

    assert scores == pytest.approx(expected, abs=0.05 * float(np.ptp(expected)))


def test_the_score_of_several_classes_is_the_one_that_the_row_names(two_classes):
    expected = one_at_a_time(two_classes)

    assert scorer(two_classes, score_class=1).score_pairs(PAIRS) == pytest.approx(expected[:, 1], abs=1e-5)
    assert scorer(two_classes, score_class=0).score_pairs(PAIRS) == pytest.approx(expected[:, 0], abs=1e-5)


def test_several_classes_are_not_guessed_at(two_classes):
    with pytest.raises(ConfigError, match=r"'tiny'.*2 classes; `score_class` must name one"):
        scorer(two_classes)
    with pytest.raises(ConfigError, match="`score_class` is 2, and its checkpoint has 2 classes"):
        scorer(two_classes, score_class=2)


def test_an_encoder_is_not_given_a_random_head(tmp_path):
    with pytest.raises(ConfigError, match=r"'tiny'.*holds a BertModel, and a cross-encoder is a sequence classifier"):
        scorer(tiny_checkpoints.bert(tmp_path))


def test_rk01_a_pair_longer_than_the_positions_is_cut(tmp_path):
    folder = tiny_checkpoints.classifier(tmp_path, positions=40, max_length=int(1e30))
    reference = CrossEncoder(str(folder), device="cpu", max_length=40, activation_fn=torch.nn.Identity())
    pair = ("fever " * 600, "rash " * 600)

    assert scorer(folder, max_length=512).score_pairs([pair]) == pytest.approx(reference.predict([pair]), abs=1e-5)


def test_a_row_may_cut_pairs_shorter_than_the_model_could_read(one_class):
    expected = one_at_a_time(one_class, max_length=24)

    assert scorer(one_class, max_length=24).score_pairs(PAIRS) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("num_pairs", [0, 1, 3])
def test_rk03_scores_are_always_a_list(tiny, num_pairs):
    scores = tiny.score_pairs(PAIRS[:num_pairs])

    assert isinstance(scores, list)
    assert len(scores) == num_pairs


def test_the_same_pairs_give_the_same_scores(tiny):
    assert tiny.score_pairs(PAIRS) == tiny.score_pairs(PAIRS)


@pytest.fixture(scope="module")
def rankllama(tmp_path_factory):
    """The folders of a backbone without a head, and of LoRA weights with the head that was trained with them."""
    torch.manual_seed(1)
    backbone = tiny_checkpoints.llama(tmp_path_factory.mktemp("llama"))
    classifier = transformers.AutoModelForSequenceClassification.from_pretrained(backbone, num_labels=1)
    lora = peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    adapter = tmp_path_factory.mktemp("lora")
    peft.get_peft_model(classifier, lora).save_pretrained(adapter)
    return backbone, adapter


def test_an_adapter_is_merged_with_its_head(rankllama):
    backbone, adapter = rankllama
    base = transformers.AutoModelForSequenceClassification.from_pretrained(backbone, num_labels=1)
    reference = peft.PeftModel.from_pretrained(base, adapter).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(backbone)
    expected = []
    for query, document in PAIRS:  # one at a time, without padding, as in R2MED's utils.py
        pair = (f"query: {query}", f"document: {document}")
        inputs = tokens(*pair, truncation="longest_first", max_length=64, return_tensors="pt")
        with torch.inference_mode():
            expected.append(reference(**inputs).logits.item())

    prompts = {"query_prompt": "query: ", "document_prompt": "document: ", "max_length": 64}
    scores = scorer(backbone, adapter=str(adapter), **prompts).score_pairs(PAIRS)

    assert scores == pytest.approx(expected, abs=1e-5)
    assert len({round(score, 3) for score in scores}) > 5


def test_another_adapter_is_another_key(rankllama, tmp_path):
    backbone, adapter = rankllama
    values = {"name": "r", "kind": "cross-encoder", "model": str(backbone)}
    plain = RerankerRow.model_validate(values).scoring_inputs(device="cpu")
    adapted = RerankerRow.model_validate(values | {"adapter": str(adapter)}).scoring_inputs(device="cpu")

    assert plain != adapted


def test_only_a_cross_encoder_takes_an_adapter():
    with pytest.raises(ValueError, match="kind 'yes-no' takes no `adapter`"):
        RerankerRow.model_validate({"name": "r", "kind": "yes-no", "model": "./m", "adapter": "./a"})


TOKENS = {"pad": 0, "end": 1, "rash": 23438}
"""Ids in MiniLM's vocabulary: [PAD], [unused0] and a word that ends texts of the tests."""


def causal(folder, architecture="Llama", *, pad_token_id, padding_side="right", tokenizer_pads=True, **changes):
    """Save a causal model with a head. `pad_token_id` is the one of `config.json`; None leaves it out."""
    tokens = tiny_checkpoints.word_pieces(template="[CLS] $A", end="[unused0]", padding_side=padding_side)
    if not tokenizer_pads:
        tokens.pad_token = None
    heads = {"num_key_value_heads": 2, "head_dim": 16} if architecture != "GPTNeoX" else {}
    config = getattr(transformers, f"{architecture}Config")(
        **tiny_checkpoints.SMALL,
        **heads,
        max_position_embeddings=512,
        num_labels=1,
        pad_token_id=pad_token_id,
        **changes,
    )
    return tiny_checkpoints.save(folder, f"{architecture}ForSequenceClassification", config, tokens)


def last_token_scores(folder, pairs):
    """Return the head's product with the state of the last token, pair by pair, without padding."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    expected = []
    for query, document in pairs:
        ids = tokens([query], [document], truncation="longest_first", max_length=512, return_tensors="pt").input_ids
        with torch.inference_mode():
            expected.append(model.score(model.base_model(ids).last_hidden_state[0, -1]).item())
    return expected


@pytest.mark.usefixtures("shared_passes")
@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        pytest.param("Llama", {"pad_token_id": None, "tokenizer_pads": False}, id="no-padding-token-anywhere"),
        pytest.param("Qwen3", {"pad_token_id": None, "tokenizer_pads": False}, id="none-in-qwen"),
        pytest.param("Llama", {"pad_token_id": None}, id="only-in-the-tokenizer"),
        pytest.param("Llama", {"pad_token_id": TOKENS["end"], "tokenizer_pads": False}, id="only-in-the-config"),
        pytest.param("Qwen2", {"pad_token_id": TOKENS["end"]}, id="two-different-ones"),
        pytest.param("GPTNeoX", {"pad_token_id": TOKENS["end"]}, id="two-different-ones-in-an-older-class"),
        pytest.param("Llama", {"pad_token_id": TOKENS["rash"]}, id="a-word-that-ends-texts"),
        pytest.param("Llama", {"pad_token_id": TOKENS["pad"], "padding_side": "left"}, id="padding-on-the-left"),
    ],
)
def test_a_causal_classifier_reads_the_last_real_token_whatever_its_config_pads_with(
    tmp_path, architecture, settings
):
    folder = causal(tmp_path, architecture, **settings)
    pairs = [*PAIRS, ("fever", "a fever with rash"), ("fever", "rash")]
    expected = last_token_scores(folder, pairs)

    together = scorer(folder, max_length=512)
    alone = [together.score_pairs([pair])[0] for pair in pairs]

    assert together.score_pairs(pairs) == pytest.approx(expected, abs=1e-5)
    assert alone == pytest.approx(expected, abs=1e-5)
    assert len({round(score, 3) for score in expected}) > 5


def test_a_padding_token_that_ends_a_text_is_read_like_any_other(tmp_path):
    folder = causal(tmp_path, pad_token_id=TOKENS["pad"])
    pairs = [("fever", "rash [PAD]"), ("fever", "measles after travel")]

    assert scorer(folder).score_pairs(pairs) == pytest.approx(last_token_scores(folder, pairs), abs=1e-5)


def test_a_language_model_that_is_asked_for_a_word_is_sent_to_yes_no(tmp_path):
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    tokens = tiny_checkpoints.word_pieces(template="[CLS] $A", end="[unused0]")
    config = transformers.LlamaConfig(**tiny_checkpoints.SMALL, max_position_embeddings=64)
    model = tiny_checkpoints.save(tmp_path / "model", "LlamaForCausalLM", config, tokens)
    modules = [Transformer(str(model), transformer_task="text-generation"), LogitScore(true_token_id=7)]
    CrossEncoder(modules=modules, device="cpu").save_pretrained(str(tmp_path / "saved"))

    with pytest.raises(ConfigError, match=r"'tiny': .* score is the logit of a word; give `kind: yes-no`"):
        scorer(tmp_path / "saved")


def fill(folder, weight, value):
    """Give every number of a weight one value."""
    weights = load_file(folder / "model.safetensors")
    weights[weight] = torch.full_like(weights[weight], value)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


CANDIDATES = [
    ("fever and rash after travel", f"measles {'and cough ' * (number % 9)}{number}") for number in range(80)
]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("architecture", ["Bert", "Roberta", "DistilBert", "Qwen3"])
def test_half_precision_ties_no_candidates_because_the_last_layer_is_float32(tmp_path, architecture, dtype):
    # Where there is a bias, it is 8.5. Between 8 and 16, neighbouring bfloat16 numbers are 2**-4 apart, and float16
    # numbers 2**-7.
    if architecture == "Qwen3":
        folder = causal(tmp_path, architecture, pad_token_id=None)
    else:
        config = getattr(transformers, f"{architecture}Config")(
            **tiny_checkpoints.SMALL, num_labels=1, pad_token_id=0
        )
        tokens = tiny_checkpoints.tokenizer()
        folder = tiny_checkpoints.save(tmp_path, f"{architecture}ForSequenceClassification", config, tokens)
        bias = "classifier.out_proj.bias" if architecture == "Roberta" else "classifier.bias"
        fill(folder, bias, 8.5)

    scores = scorer(folder, dtype=dtype).score_pairs(CANDIDATES)

    in_half = torch.tensor(scores).to(getattr(torch, dtype))
    assert len(set(in_half.tolist())) < len(set(scores))
    assert len(set(scores)) > 77  # of 80; so small a network rounds some states to the same numbers
    assert scores == pytest.approx(scorer(folder).score_pairs(CANDIDATES), abs=0.1)


def test_a_network_whose_last_layer_can_not_be_float32_alone_is_refused(tmp_path):
    folder = tiny_checkpoints.own_buffers(tmp_path / "own")
    code = folder / "modeling_wave.py"
    code.write_text(
        code.read_text().replace("logits=self.score(states)", "logits=self.score(states).to(states.dtype)")
    )

    halved = scorer(folder, dtype="bfloat16", trust_remote_code=True)
    with pytest.raises(
        ConfigError, match=r"'tiny': the last layer .* while the others are bfloat16; give `dtype: fl"
    ):
        halved.score_pairs(PAIRS)


def test_an_adapter_that_lacks_its_head_is_refused(rankllama, tmp_path):
    backbone, adapter = rankllama
    weights = load_file(adapter / "adapter_model.safetensors")
    del weights["base_model.model.score.weight"]
    (tmp_path / "adapter_config.json").write_bytes((adapter / "adapter_config.json").read_bytes())
    save_file(weights, tmp_path / "adapter_model.safetensors", {"format": "pt"})

    with pytest.raises(DataError, match=r"'tiny': 1 weights of LlamaForSequenceClassification .*'score\.weight'"):
        scorer(backbone, adapter=str(tmp_path))


@pytest.mark.parametrize(
    ("change", "said"), [("lacks", "lacks 1 weights, and has 0"), ("renames", "lacks 1 .* has 1")]
)
def test_an_adapter_that_does_not_fit_its_backbone_is_refused(rankllama, tmp_path, change, said):
    backbone, adapter = rankllama
    weights = load_file(adapter / "adapter_model.safetensors")
    name = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"
    value = weights.pop(name)
    if change == "renames":
        weights[name.replace("layers.1", "layers.7")] = value
    (tmp_path / "adapter_config.json").write_bytes((adapter / "adapter_config.json").read_bytes())
    save_file(weights, tmp_path / "adapter_model.safetensors", {"format": "pt"})

    with pytest.raises(DataError, match=f"'tiny': the adapter in .* doesn't fit .*: it {said}"):
        scorer(backbone, adapter=str(tmp_path))


def test_a_cross_encoder_has_another_key_since_it_reads_the_last_real_token_in_float32(one_class):
    values = {"name": "r", "model": str(one_class)}
    inputs = RerankerRow.model_validate(values | {"kind": "cross-encoder"}).scoring_inputs(device="cpu")
    half, whole = (
        RerankerRow.model_validate(values | {"kind": "yes-no", "dtype": dtype}).scoring_inputs(device="cpu")
        for dtype in ("bfloat16", "float32")
    )

    assert inputs["last_layer"] == "float32, at the last real token"
    assert half["last_layer"] == "float32"
    assert "last_layer" not in whole  # its bytes are the same as before


def test_what_is_cut_off_the_texts_of_a_pair_is_counted(one_class):
    read = scorer(one_class, max_length=23)
    read.score_pairs([("fever " * 30, "rash " * 40), ("fever " * 30, "rash " * 4), ("fever", "rash")])

    # [CLS] and two [SEP] leave 20 tokens. Pair 1: 10 and 10 are kept of 30 and 40. Pair 2: 16 and 4 of 30 and 4.
    assert read.take_cuts() == {
        "query": Cuts(texts=3, cut=2, tokens=61, lost=34, lengths=(23,)),
        "document": Cuts(texts=3, cut=1, tokens=45, lost=30, lengths=(23,)),
    }
