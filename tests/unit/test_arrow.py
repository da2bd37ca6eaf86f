"""Texts as numbers, and the memory that Arrow takes."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.storage.arrow import codes, codes_of_runs, in_lean_memory, numbers, text_array


@given(st.lists(st.sampled_from(["", "a", "é", "ab"]), max_size=8), st.integers(0, 8))
def test_codes_of_runs_are_the_codes(texts, cut):
    array = text_array(texts)
    column = pa.chunked_array([array.slice(0, cut), array.slice(cut)])

    for given_as in (array, array.slice(1), column):
        (distinct, code_N), (same, of_runs_N) = codes(given_as), codes_of_runs(given_as)
        assert same.to_pylist() == distinct.to_pylist()
        assert of_runs_N.tolist() == code_N.tolist()


def test_arrow_has_its_usual_memory_again_after_blocks_that_overlap():
    usual = pa.default_memory_pool().backend_name
    first, second = in_lean_memory(), in_lean_memory()
    found = []
    for step in (first.__enter__, second.__enter__, lambda: first.__exit__(None, None, None)):
        step()
        found.append(pa.default_memory_pool().backend_name)
    second.__exit__(None, None, None)

    assert found == ["system"] * 3
    assert pa.default_memory_pool().backend_name == usual


def test_numbers_of_one_chunk_are_not_copied():
    array = pa.array([1.5, 2.5, 3.5])
    column = pa.chunked_array([array])

    assert numbers(column).ctypes.data == numbers(array).ctypes.data == array.buffers()[1].address
    assert numbers(pa.chunked_array([array, array[1:]])).tolist() == [1.5, 2.5, 3.5, 2.5, 3.5]
    assert numbers(pa.chunked_array([], pa.float16())).tolist() == []


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
