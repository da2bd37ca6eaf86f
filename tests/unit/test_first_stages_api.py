"""An embedding service is a retriever like any other, and what changes its vectors changes its key."""

from typing import Any

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.vectors import ApiFirstStage
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import resolve

OPENAI = "text-embedding-3-large"


def first_stage(retriever: Any, **changes: object) -> FirstStage:
    system = {"name": "s", "retriever": retriever}
    config = parse_config({"name": "x", "tasks": ["Demo-Posts"], "systems": [system], **changes})
    return resolve(config).systems[0].first_stages[0]


def document_inputs(**changes: object) -> dict[str, Any]:
    resolved = first_stage(OPENAI, **changes)
    assert isinstance(resolved, ApiFirstStage)
    return resolved.row.encoding_inputs("Demo-Posts", side="document")


def test_texts_are_quoted_under_compat_r2med_and_the_key_says_so() -> None:
    plain, published = document_inputs(), document_inputs(compat="r2med")

    assert (plain.pop("input_format"), published.pop("input_format")) == ("plain", "json-quoted")
    assert plain == published


def test_length_and_index_may_be_chosen() -> None:
    resolved = first_stage({"model": OPENAI, "max_length": 512, "index": "HNSW32"})

    assert isinstance(resolved, ApiFirstStage)
    assert (resolved.row.max_length, resolved.label) == (512, "text-embedding-3-large[HNSW32;efSearch=256]")


def test_a_dtype_has_no_meaning_for_a_service() -> None:
    with pytest.raises(ConfigError, match="leave out `dtype`"):
        first_stage({"model": OPENAI, "dtype": "float16"})


def test_the_dtype_of_all_encoders_leaves_a_service_as_it_is() -> None:
    assert document_inputs(resources={"encode": {"dtype": "float16"}}) == document_inputs()
