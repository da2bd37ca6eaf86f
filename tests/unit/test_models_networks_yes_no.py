from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.networks.yes_no import YesNoScorer
from tests.unit import tiny_checkpoints

PAIRS = [
    ("fever and rash after travel", "measles"),
    ("acute renal failure", "contrast nephropathy " * 9),
    ("acute renal failure", "heart " * 700),
    ("fever and rash after travel", ""),
]
PARTS = {"prefix": "judge : ", "query_prompt": "query : ", "document_prompt": " document : ", "suffix": " answer :"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = transformers.Qwen3Config(
        **tiny_checkpoints.SMALL, num_key_value_heads=1, head_dim=16, max_position_embeddings=256
    )
    target = tmp_path_factory.mktemp("qwen3")
    return tiny_checkpoints.save(target, "Qwen3ForCausalLM", config, tiny_checkpoints.tokenizer())


def scorer(folder: Path, **changes: object) -> YesNoScorer:
    values = {"name": "tiny", "kind": "yes-no", "model": str(folder), "dtype": "float32", "max_length": 100, **PARTS}
    return YesNoScorer(RerankerRow.model_validate(values | changes), device="cpu")


def one_at_a_time(folder: Path, max_length: int) -> list[float]:
    """Return the reference scores: the logit of yes minus that of no at the last token, pair by pair, unpadded."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    prefix, suffix = (tokens(PARTS[part], add_special_tokens=False).input_ids for part in ("prefix", "suffix"))
    scores = []
    for query, document in PAIRS:
        text = f"query : {query} document : {document}"
        body = tokens(text, add_special_tokens=False).input_ids[: max_length - len(prefix) - len(suffix)]
        with torch.inference_mode():
            logits = model(torch.tensor([prefix + body + suffix])).logits[0, -1]
        yes, no = tokens.convert_tokens_to_ids(["yes", "no"])
        scores.append(float(logits[yes] - logits[no]))
    return scores


def test_a_score_is_the_log_odds_of_yes_against_no(folder: Path):
    assert scorer(folder).score_pairs(PAIRS) == pytest.approx(one_at_a_time(folder, 100), abs=1e-5)


def test_only_the_pair_is_cut_so_that_the_question_stays_whole(folder: Path):
    assert scorer(folder, max_length=30).score_pairs(PAIRS) == pytest.approx(one_at_a_time(folder, 30), abs=1e-5)


def test_pairs_are_cut_to_what_the_model_has_positions_for(folder: Path):
    # the model has 256 positions, and the third document alone has 700 tokens
    assert scorer(folder, max_length=4096).score_pairs(PAIRS) == pytest.approx(one_at_a_time(folder, 256), abs=1e-5)


@pytest.mark.usefixtures("shared_passes")
def test_a_score_does_not_depend_on_the_other_pairs(folder: Path):
    together = scorer(folder).score_pairs(PAIRS)
    alone = [scorer(folder).score_pairs([pair])[0] for pair in PAIRS]

    assert together == pytest.approx(alone, abs=1e-5)
    assert scorer(folder).score_pairs([]) == []


def test_the_answers_may_be_other_words(folder: Path):
    turned = scorer(folder, yes="no", no="yes").score_pairs(PAIRS)

    assert np.negative(turned) == pytest.approx(one_at_a_time(folder, 100), abs=1e-5)


def test_an_answer_that_is_no_token_is_refused(folder: Path):
    with pytest.raises(ConfigError, match="'tiny': the answer 'yesyes' is no token of its vocabulary"):
        scorer(folder, yes="yesyes")


def test_a_template_that_leaves_no_room_is_refused(folder: Path):
    with pytest.raises(ConfigError, match="'tiny': prefix and suffix take all of its 4 tokens"):
        scorer(folder, max_length=4)
