from typing import Any

import pytest
from pydantic import ValidationError

from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.services import USAGE, ApiEncoderRow, cost_line

GIVEN: dict[str, Any] = {
    "name": "m",
    "model": "the-model",
    "base_url": "http://localhost:8000/v1",
    "dimension": 3,
    "tokenizer": "tiktoken:cl100k_base",
    "max_length": 20,
    "max_input_tokens": 30,
    "batch_tokens": 100,
}
ROW = ApiEncoderRow(**GIVEN)


def test_the_shipped_rows_have_the_published_lengths_and_name_their_keys():
    rows = load_catalog().api_encoders

    assert {row.published: (row.dimension, row.max_length, row.key_variable) for row in rows.values()} == {
        "openai": (3072, 6000, "OPENAI_API_KEY"),
        "voyage": (1024, 16_000, "VOYAGE_API_KEY"),
    }


def test_voyage_is_told_which_side_a_text_is_on_and_never_cuts_it():
    row = load_catalog().api_encoders["voyage-3"]

    assert (row.body, row.query_body, row.document_body) == (
        {"truncation": False},
        {"input_type": "query"},
        {"input_type": "document"},
    )
    assert row.expansion_prompt == "query"


def test_inputs_are_quoted_under_compat_r2med_only():
    for row in load_catalog().api_encoders.values():
        assert row.under("none").input_format == "plain"
        assert row.under("r2med").input_format == "json-quoted"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base_url": "api.openai.com"}, "base_url"),
        ({"key_variable": "sk-1234"}, "key_variable"),
        ({"dtype": "float16"}, "`dtype` has no meaning for a model behind an API"),
        ({"trust_remote_code": True}, "`trust_remote_code` has no meaning"),
        ({"max_length": 31}, "`max_length` must not exceed `max_input_tokens`"),
        ({"max_input_tokens": 101}, "which must not exceed `batch_tokens`"),
        ({"calls": {"atempts": 3}}, "atempts"),
    ],
)
def test_a_wrong_row_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(ValidationError, match=message):
        ApiEncoderRow(**GIVEN | change)


@pytest.mark.parametrize(
    "change",
    [
        {"base_url": "http://localhost:9000/v1"},
        {"model": "another"},
        {"dimension": 4},
        {"tokenizer": "tiktoken:o200k_base"},
        {"max_length": 21},
        {"input_format": "json-quoted"},
        {"similarity": "dot"},
        {"body": {"dimensions": 3}},
        {"document_body": {"input_type": "document"}},
    ],
)
def test_the_key_holds_what_changes_a_vector(change: dict[str, Any]):
    changed = ApiEncoderRow(**GIVEN | change)

    assert changed.encoding_inputs("Biology", side="document") != ROW.encoding_inputs("Biology", side="document")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "n"},
        {"key_variable": "KEY"},
        {"batch_texts": 7},
        {"batch_tokens": 77},
        {"max_input_tokens": 31},
        {"calls": {"attempts": 3}},
        {"usd_per_million_tokens": 1},
        {"query_body": {"input_type": "query"}},
    ],
)
def test_the_key_of_documents_leaves_out_what_does_not(change: dict[str, Any]):
    changed = ApiEncoderRow(**GIVEN | change)

    assert changed.encoding_inputs("Biology", side="document") == ROW.encoding_inputs("Biology", side="document")


def test_a_hub_tokenizer_without_a_commit_says_how_to_pin_it():
    with pytest.raises(NotAtHand, match=r"'voyageai/voyage-3' has no revision.*`revision:`"):
        load_catalog().api_encoders["voyage-3"].encoding_inputs("Biology")


def test_the_cost_is_tokens_by_price():
    usage = {"sent": 1200, "stored": 64, "tokens": 1_500_000, "requests": 21, "repeated": 2}
    row = ApiEncoderRow(**GIVEN, usd_per_million_tokens=0.13)

    # 1.5 million tokens × 0.13 dollars per million = 0.195 dollars.
    assert cost_line(row, usage) == (
        "m: 1,200 texts sent, 1,500,000 tokens, $0.1950; 21 requests, 2 of them repetitions; "
        "64 texts from earlier answers"
    )


def test_without_a_price_the_cost_is_tokens_alone():
    usage = dict.fromkeys(USAGE, 0) | {"tokens": 10}

    assert cost_line(ROW, usage).startswith("m: 0 texts sent, 10 tokens, price not known; ")


def test_an_address_with_a_secret_in_it_is_refused():
    with pytest.raises(ValidationError, match="`base_url` should be scheme, host, port and path alone"):
        ApiEncoderRow(**GIVEN | {"base_url": "http://localhost:8000/v1?api-key=hunter2"})
