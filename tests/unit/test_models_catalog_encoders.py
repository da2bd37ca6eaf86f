from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from r2med_ray.models.catalog.checkpoints import SparseRow
from r2med_ray.models.catalog.encoders import EncoderRow, prompts_for
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.row import library_versions
from r2med_ray.models.catalog.vllm import version

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
    assert prompts_for(encoders["gritlm-7b"], "Biology") == (
        "<|user|>\nGiven a Biology post, retrieve relevant passages that help answer the post\n<|embed|>\n",
        "<|embed|>\n",
    )
    assert prompts_for(encoders["nv-embed-v2"], "PMC-Treatment") == (
        "Instruct: Given a Clinical Case, retrieve relevant passages that help answer the case\nQuery: ",
        "",
    )


@pytest.mark.parametrize(
    ("task", "query", "document"),
    [
        ("Biology", "the Biology post for retrieving relevant paragraphs", "the Biology paragraph"),
        (
            "Medical-Sciences",
            "the Medical Science post for retrieving relevant paragraphs",
            "the Medical Science paragraph",
        ),
        (
            "Bioinformatics",
            "the Bioinformatics post for retrieving relevant paragraphs",
            "the Bioinformatics paragraph",
        ),
        (
            "MedXpertQA-Exam",
            "the Medical Exam for retrieving relevant paragraphs that help answer the exam",
            "the Medical paragraph",
        ),
        (
            "MedQA-Diag",
            "the Medical Exam for retrieving relevant paragraphs that help answer the exam",
            "the Medical paragraph",
        ),
        (
            "PMC-Treatment",
            "the Clinical Case for retrieving relevant paragraphs that help answer the case",
            "the Medical paragraph",
        ),
        (
            "PMC-Clinical",
            "the Clinical Case for retrieving similar cases that help diagnose the case",
            "the Clinical Case",
        ),
        (
            "IIYi-Clinical",
            "the Clinical Case for retrieving similar cases that help diagnose the case",
            "the Clinical Case",
        ),
    ],
)
def test_instructors_prompts_are_the_published_ones_on_both_sides(task: str, query: str, document: str):
    for name in ("instructor-large", "instructor-xl"):
        assert prompts_for(load_catalog().encoders[name], task) == (
            f"Represent {query}: ",
            f"Represent {document} for retrieval: ",
        )


def test_a_task_without_an_instruction_of_its_own_gets_the_default():
    encoders = load_catalog().encoders

    # The instructions of the published NFCorpus runs differ in one word.
    assert prompts_for(encoders["sfr-mistral"], "NFCorpus").query == (
        "Instruct: Given a question, retrieve relevant documents that answer the question\nQuery: "
    )
    assert prompts_for(encoders["bmretriever-2b"], "NFCorpus").query == (
        "Given a question, retrieve relevant documents that best answer the question\nQuery: "
    )


def test_a_prompt_with_an_instruction_needs_instructions():
    with pytest.raises(ValidationError, match="needs `instructions` with a `default`"):
        EncoderRow(name="m", model="org/m", pooling="last", query_prompt="{instruction}: ", max_length=9)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"pooling": "encode"}, "`pooling: encode` needs `trust_remote_code: true`"),
        ({"pooling": "encode", "trust_remote_code": True, "append_eos": True}, "`append_eos` needs `pooling` mean"),
        (
            {"pooling": "model", "attention": "bidirectional"},
            "`attention` needs `pooling` mean, cls, last, not 'model'",
        ),
        ({"pooling": "last", "exclude_prompt_from_pooling": True}, "needs `pooling` mean, model, not 'last'"),
        ({"pooling": "last", "end_token": "<end>"}, "`end_token` needs `append_eos: true`"),
        ({"pooling": "cls", "document_as_pair": True, "append_eos": True}, "can not be combined"),
        ({"pooling": "cls", "r2med": {"max_lenght": 4}}, "max_lenght"),
        ({"pooling": "cls", "r2med": {"max_length": 0}}, "max_length"),
    ],
)
def test_keys_that_would_not_be_heeded_are_refused(keys: dict[str, Any], message: str):
    with pytest.raises(ValidationError, match=message):
        EncoderRow.model_validate({"name": "m", "model": "org/m", "max_length": 9} | keys)


def test_what_r2med_did_otherwise_holds_under_its_compat_alone():
    row = EncoderRow.model_validate(ROW.model_dump() | {"r2med": {"max_length": 64, "dtype": "float16"}})

    assert row.under("none") == ROW
    assert row.under("r2med") == ROW.model_copy(update={"max_length": 64, "dtype": "float16"})


def test_a_branch_is_no_revision():
    with pytest.raises(ValidationError, match="revision"):
        EncoderRow(name="m", model="org/m", revision="main", pooling="mean", max_length=9)


@pytest.mark.parametrize("wrong", [{}, {"model": "org/m", "encoder": "e"}, {"encoder": "e"}])
def test_a_cross_encoder_needs_a_model_and_no_encoder(wrong: dict[str, str]):
    with pytest.raises(ValidationError, match="needs `model`, and not `encoder`"):
        RerankerRow.model_validate({"name": "r", "kind": "cross-encoder"} | wrong)


CHANGES: Mapping[str, Any] = {
    "model": "org/other",
    "revision": COMMIT[::-1],
    "document_model": "org/documents",
    "document_revision": COMMIT[::-1],
    "pooling": "mean",
    "attention": "bidirectional",
    "query_prompt": "q: ",
    "document_prompt": "d: ",
    "instructions": {"default": "find", "Biology": "look"},
    "document_instructions": {"default": "see"},
    "exclude_prompt_from_pooling": True,
    "document_as_pair": True,
    "max_length": 256,
    "query_max_length": 64,
    "dtype": "bfloat16",
    "similarity": "dot",
    "append_eos": True,
    "end_token": "<end>",
    "autocast": True,
    "trust_remote_code": True,
    "class_": "toys.Encoder",
    "engine": "vllm",
}
HARMLESS = {
    "allow_pickle": True,
    "billions": 1.0,
    "name": "n",
    "license": "mit",
    "memory_gb": 9.0,
    "published": "bge",
    "expansion_prompt": "query",
    "r2med": {},
}
"""Changes that don't change a document's vector. `Encoding.query_vectors_key` has the expansion prompt."""


@pytest.mark.parametrize("key", CHANGES)
def test_en11_whatever_changes_a_vector_changes_its_key(key: str):
    row = ROW.model_copy(
        update={"query_prompt": "{instruction}", "document_prompt": "{instruction}", "document_model": "org/articles"}
        | {"document_revision": COMMIT, "instructions": {"default": "seek", "Biology": "find"}}
    )

    assert row.model_copy(update={key: CHANGES[key]}).encoding_inputs("Biology") != row.encoding_inputs("Biology")


def test_en11_what_changes_no_vector_keeps_the_key():
    assert ROW.model_copy(update=HARMLESS).encoding_inputs("Biology") == ROW.encoding_inputs("Biology")


def test_en11_every_key_of_a_row_either_changes_its_vectors_or_does_not():
    with_a_class = {"version"}  # test_models_networks_own_models tests it with the classes
    assert {*CHANGES, *HARMLESS, *with_a_class} == set(EncoderRow.model_fields)
    assert not {*CHANGES} & {*HARMLESS}


def test_en11_documents_are_not_encoded_again_for_another_query_prompt():
    other = ROW.model_copy(update={"query_prompt": "q: ", "query_max_length": 64})

    assert other.encoding_inputs("t", side="document") == ROW.encoding_inputs("t", side="document")
    assert other.encoding_inputs("t", side="query") != ROW.encoding_inputs("t", side="query")


def test_the_dtype_of_the_key_is_the_one_that_is_computed_with():
    row = ROW.model_copy(update={"dtype": "auto"})

    assert row.encoding_inputs("t", device="cpu")["dtype"] == "float32"
    assert row.encoding_inputs("t", device="mps")["dtype"] == "float32"


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(partial(ROW.encoding_inputs, "t"), id="encoder"),
        pytest.param(
            SparseRow(name="s", model="org/m", revision=COMMIT, max_length=9, dtype="float32").encoding_inputs,
            id="sparse",
        ),
        pytest.param(
            RerankerRow(
                name="r", kind="cross-encoder", model="org/m", revision=COMMIT, dtype="float32"
            ).scoring_inputs,
            id="cross-encoder",
        ),
    ],
)
def test_en11_what_one_text_alone_became_has_another_key_than_what_shared_a_pass(
    inputs: Callable[..., dict[str, Any]],
):
    assert inputs(device="cpu") == {**inputs(device="cuda"), "pass": "one text"}


def test_en11_vectors_of_vllm_have_their_engine_and_its_version_in_the_key_and_others_do_not():
    plain, other = ROW.encoding_inputs("t", device="cuda"), ROW.model_copy(update={"engine": "vllm"})
    libraries = {**library_versions(), "vllm": version()}

    assert other.encoding_inputs("t", device="cuda") == {**plain, "engine": "vllm", "libraries": libraries}
    # Texts share matrix products on a CPU too, so the key doesn't say that each was read alone.
    assert other.encoding_inputs("t", device="cpu") == other.encoding_inputs("t", device="cuda")
    assert plain["libraries"] == library_versions()
    assert "engine" not in ROW.encoding_inputs("t", device="cpu")


def test_en11_a_class_of_ones_own_decides_itself_what_shares_a_pass():
    row = ROW.model_copy(update={"class_": "toys.Encoder"})

    assert row.encoding_inputs("t", device="cpu") == row.encoding_inputs("t", device="cuda")


def test_versions_have_no_build_tag():
    versions = library_versions()

    assert set(versions) >= {"torch", "transformers", "sentence-transformers"}
    assert all("+" not in version for version in versions.values())


@pytest.mark.parametrize(
    ("values", "device", "dtype"),
    [
        pytest.param({"kind": "cross-encoder", "model": "./m"}, "cuda", "float16", id="close scores need float16"),
        pytest.param({"kind": "cross-encoder", "model": "./m"}, "cpu", "float32", id="and float32 on a CPU"),
        pytest.param(
            {"kind": "yes-no", "model": "./m"}, "cuda", "bfloat16", id="language models were made in bfloat16"
        ),
        pytest.param({"kind": "cross-encoder", "model": "./m", "dtype": "float32"}, "cuda", "float32", id="named"),
    ],
)
def test_a_rerankers_precision_suits_its_kind(values: dict[str, str], device: str, dtype: str):
    assert RerankerRow.model_validate({"name": "r", **values}).resolved_dtype(device) == dtype
