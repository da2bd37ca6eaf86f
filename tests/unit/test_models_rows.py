from typing import Any

import pytest
from pydantic import ValidationError

from r2med_ray.models.catalog import load_catalog
from r2med_ray.models.devices import best_dtype
from r2med_ray.models.rows import EncoderRow, RerankerRow, library_versions, prompts_for

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROW = EncoderRow(
    name="m", model="org/m", revision=COMMIT, pooling="cls", query_prompt="Q: ", max_length=512, dtype="float32"
)


def test_r2med_instructions_are_the_published_strings():
    encoders = load_catalog().encoders

    assert prompts_for(encoders["e5-mistral"], "PMC-Clinical") == (
        "Instruct: Given a Clinical Case, retrieve similar cases that help diagnose the case\nQuery: ",
        "",
    )
    assert prompts_for(encoders["bmretriever-2b"], "Medical-Sciences") == (
        "Given a Medical Science post, retrieve relevant passages that help answer the post\nQuery: ",
        "Represent this passage\npassage: ",
    )
    assert prompts_for(encoders["bge-large-en-v1.5"], "MedQA-Diag") == (
        "Represent this sentence for searching relevant passages: ",
        "",
    )
    assert prompts_for(encoders["contriever"], "Biology") == ("", "")


def test_a_task_without_an_instruction_of_its_own_gets_the_default():
    prompts = prompts_for(load_catalog().encoders["sfr-mistral"], "NFCorpus")

    assert prompts.query == (
        "Instruct: Given a question, retrieve relevant documents that best answer the question\nQuery: "
    )


def test_a_prompt_with_an_instruction_needs_instructions():
    with pytest.raises(ValidationError, match="needs `instructions` with a `default`"):
        EncoderRow(name="m", model="org/m", pooling="last", query_prompt="{instruction}: ", max_length=9)


def test_a_branch_is_no_revision():
    with pytest.raises(ValidationError, match="revision"):
        EncoderRow(name="m", model="org/m", revision="main", pooling="mean", max_length=9)


@pytest.mark.parametrize("wrong", [{}, {"model": "org/m", "encoder": "e"}, {"encoder": "e"}])
def test_a_cross_encoder_needs_a_model_and_no_encoder(wrong: dict[str, str]):
    with pytest.raises(ValidationError, match="needs `model`, and not `encoder`"):
        RerankerRow.model_validate({"name": "r", "kind": "cross-encoder"} | wrong)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "org/other"},
        {"revision": COMMIT[::-1]},
        {"pooling": "mean"},
        {"query_prompt": "q: "},
        {"document_prompt": "d: "},
        {"max_length": 256},
        {"query_max_length": 64},
        {"dtype": "bfloat16"},
        {"similarity": "dot"},
        {"append_eos": True},
    ],
)
def test_en11_whatever_changes_a_vector_changes_its_key(change: dict[str, Any]):
    assert ROW.model_copy(update=change).encoding_inputs("Biology") != ROW.encoding_inputs("Biology")


def test_en11_what_changes_no_vector_keeps_the_key():
    renamed = ROW.model_copy(update={"name": "n", "license": "mit", "memory_gb": 9.0, "published": "bge"})

    assert renamed.encoding_inputs("Biology") == ROW.encoding_inputs("Biology")


def test_en11_documents_are_not_encoded_again_for_another_query_prompt():
    other = ROW.model_copy(update={"query_prompt": "q: ", "query_max_length": 64})

    assert other.encoding_inputs("t", side="document") == ROW.encoding_inputs("t", side="document")
    assert other.encoding_inputs("t", side="query") != ROW.encoding_inputs("t", side="query")


def test_the_dtype_of_the_key_is_the_one_that_is_computed_with():
    row = ROW.model_copy(update={"dtype": "auto"})

    assert row.encoding_inputs("t", device="cpu")["dtype"] == best_dtype("cpu")
    assert row.encoding_inputs("t", device="mps")["dtype"] == "float32"


def test_versions_have_no_build_tag():
    versions = library_versions()

    assert set(versions) >= {"torch", "transformers", "sentence-transformers"}
    assert all("+" not in version for version in versions.values())
