"""Texts as numbers, and the memory that Arrow takes."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.storage.arrow import codes, codes_of_runs, in_lean_memory, text_array


@given(st.lists(st.sampled_from(["", "a", "é", "ab"]), max_size=8), st.integers(0, 8))
def test_codes_of_runs_are_the_codes(texts, cut):
    array = text_array(texts)
    column = pa.chunked_array([array.slice(0, cut), array.slice(cut)])

    for given_as in (array, array.slice(1), column):
        (distinct, code_N), (same, of_runs_N) = codes(given_as), codes_of_runs(given_as)
        assert same.to_pylist() == distinct.to_pylist()
        assert of_runs_N.tolist() == code_N.tolist()


def test_arrow_has_its_usual_memory_again_after_an_error():
    usual = pa.default_memory_pool().backend_name
    found = []

    def fail():
        with in_lean_memory():
            found.append(pa.default_memory_pool().backend_name)
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert found == ["system"]
    assert pa.default_memory_pool().backend_name == usual
