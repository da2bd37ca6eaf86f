"""The dtype `fastest` is what was measured, float32 unless bfloat16 gains clearly, and unknown until then."""

import pickle

import pytest
from pydantic import ValidationError

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.devices import best_dtype
from r2med_ray.models.catalog.fastest import FastestDtype
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.rerankers import RerankerRow

ROW = load_catalog().encoders["all-MiniLM-L6-v2"].model_copy(update={"dtype": "fastest"})
HALF = FastestDtype(dtype="bfloat16", rates={"float32": 10.0, "bfloat16": 20.0}, computer="a CPU, 2 threads")


@pytest.mark.parametrize(
    ("of_float32", "of_bfloat16", "dtype"),
    [
        pytest.param([1.0, 1.0, 1.0], [0.5, 0.5, 0.5], "bfloat16", id="twice as fast"),
        # 1.0 / 0.95 is 1.05 times as fast, less than the 1.1 that lost digits are worth.
        pytest.param([1.0, 1.0, 1.0], [0.95, 0.95, 0.95], "float32", id="too little to lose digits for"),
        pytest.param([1.0, 1.0, 9.0], [1.4, 1.4, 0.1], "float32", id="one odd round of three decides nothing"),
    ],
)
def test_the_medians_of_rounds_decide(of_float32: list[float], of_bfloat16: list[float], dtype: str):
    found = FastestDtype.of_rounds({"float32": of_float32, "bfloat16": of_bfloat16}, 8, "a CPU, 1 thread")

    assert found.dtype == dtype
    assert found.rates["float32"] == 8.0  # 8 texts in a median of 1 s


def test_both_rates_are_told():
    assert HALF.describe() == (
        "10 in float32 and 20 in bfloat16 texts per CPU second on a CPU, 2 threads; "
        "bfloat16 must be 1.1 times as fast"
    )
    assert FastestDtype(dtype="float32").describe() == "to be measured when a job begins, float32 until then"


def test_vectors_have_no_key_before_their_dtype_was_measured():
    with pytest.raises(ConfigError, match="all-MiniLM-L6-v2: `dtype: fastest` must be measured"):
        ROW.encoding_inputs("t", device="cpu")


def test_what_was_measured_is_the_dtype_of_keys_and_follows_the_row_to_workers():
    sent = pickle.loads(pickle.dumps(ROW.with_fastest(HALF)))

    named = ROW.model_copy(update={"dtype": "bfloat16"})
    assert sent.encoding_inputs("t", device="cpu") == named.encoding_inputs("t", device="cpu")
    assert sent.model_dump() == ROW.model_dump()  # it is no setting
    assert sent.chosen == {"fastest": f"bfloat16: {HALF.describe()}"}


def test_on_a_gpu_fastest_is_auto():
    assert ROW.with_fastest(FastestDtype(dtype="float32")).resolved_dtype("cuda") == best_dtype("cuda")


def test_nothing_is_measured_for_a_reranker():
    with pytest.raises(ValidationError, match="`dtype: fastest` is for encoders; give auto, float32"):
        RerankerRow.model_validate({"name": "r", "kind": "cross-encoder", "model": "./m", "dtype": "fastest"})
