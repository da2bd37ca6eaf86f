import numpy as np
import peft
import pytest
import torch
import transformers
from sentence_transformers import CrossEncoder

from r2med_ray.errors import ConfigError
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
