from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from r2med_ray.cuts import Cuts
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
    with pytest.raises(ConfigError, match="'tiny': prefix, prompts and suffix leave 0 of its 4 tokens for a query"):
        scorer(folder, max_length=4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_ties_no_candidates_because_the_answers_are_compared_in_float32(folder: Path, dtype: str):
    pairs = [
        ("fever and rash after travel", f"measles {'and cough ' * (number % 9)}{number}") for number in range(80)
    ]

    scores = scorer(folder, dtype=dtype).score_pairs(pairs)

    # A product in bfloat16 has 8 digits, so the scores, which lie within -2 and 2, would share few values.
    in_half = torch.tensor(scores).to(getattr(torch, dtype)).tolist()
    assert len(set(in_half)) < len(set(scores)) == len(pairs)
    assert scores == pytest.approx(scorer(folder).score_pairs(pairs), abs=0.1)


LONG = "fever and rash after travel " * 12
"""A query of 60 tokens."""


def by_ids(folder: Path, pair: list[int]) -> float:
    """Return the score of a pair whose tokens, prompts included, are given."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    prefix, suffix = (tokens(PARTS[part], add_special_tokens=False).input_ids for part in ("prefix", "suffix"))
    with torch.inference_mode():
        logits = model(torch.tensor([prefix + pair + suffix])).logits[0, -1]
    yes, no = tokens.convert_tokens_to_ids(["yes", "no"])
    return float(logits[yes] - logits[no])


def test_a_long_query_leaves_a_passage_half_of_the_room(folder: Path):
    # prefix, prompts and suffix are 2 tokens each, 8 in all, so 40 - 8 = 32 are left: 16 for each text.
    words = transformers.AutoTokenizer.from_pretrained(folder)
    read = scorer(folder, max_length=40)
    pairs = [(LONG, "rash " * 30), (LONG, "heart " * 30)]
    query = "fever and rash after travel " * 3 + "fever"

    scores = read.score_pairs(pairs)

    expected = [
        by_ids(folder, words(f"query : {query} document : {name * 16}", add_special_tokens=False).input_ids)
        for name in ("rash ", "heart ")
    ]
    assert scores == pytest.approx(expected, abs=1e-5)
    assert abs(scores[0] - scores[1]) > 1e-3  # candidates no longer tie
    # 2 × 60 tokens of queries, of which 2 × 16 are read; 2 × 30 tokens of documents, of which 2 × 16 are read.
    assert read.take_cuts() == {
        "query": Cuts(texts=2, cut=2, tokens=120, lost=88, lengths=(40,)),
        "document": Cuts(texts=2, cut=2, tokens=60, lost=28, lengths=(40,)),
    }


def test_a_short_passage_stays_whole_beside_a_long_query(folder: Path):
    # 32 tokens are left for both; the passage takes 2, the query keeps 30.
    words = transformers.AutoTokenizer.from_pretrained(folder)
    read = scorer(folder, max_length=40)

    [score] = read.score_pairs([(LONG, "heart rash")])

    kept = f"query : {'fever and rash after travel ' * 6}document : heart rash"
    assert score == pytest.approx(by_ids(folder, words(kept, add_special_tokens=False).input_ids), abs=1e-5)
    assert read.take_cuts() == {
        "query": Cuts(texts=1, cut=1, tokens=60, lost=30, lengths=(40,)),
        "document": Cuts(texts=1, tokens=2, lengths=(40,)),
    }


def test_scores_of_pairs_that_are_cut_by_this_rule_have_a_key_of_their_own(folder: Path):
    row = RerankerRow.model_validate({"name": "t", "kind": "yes-no", "model": str(folder)})

    assert row.scoring_inputs(device="cpu")["cut"] == "longer text first"
