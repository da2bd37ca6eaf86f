import numpy as np
import pytest

from r2med_ray.vectors import unit_length


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_are_divided_by_their_lengths_in_their_own_precision(dtype: type) -> None:
    vectors = np.array([[3, 4], [0, -2]], dtype)

    unit = unit_length(vectors)

    # √(3² + 4²) = 5 and √(0² + 2²) = 2.
    assert unit.tolist() == [[dtype(3) / dtype(5), dtype(4) / dtype(5)], [0, -1]]
    assert unit.dtype == dtype
    assert vectors.tolist() == [[3, 4], [0, -2]]


def test_a_vector_of_zeros_stays_as_it_is() -> None:
    assert unit_length(np.zeros((2, 3), np.float32)).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_no_vectors_stay_no_vectors() -> None:
    assert unit_length(np.empty((0, 3), np.float32)).shape == (0, 3)


def test_a_vector_that_is_not_finite_is_not_made_a_finite_one() -> None:
    with np.errstate(invalid="ignore"):
        unit = unit_length(np.array([[np.nan, 1], [np.inf, 1], [0, 2]], np.float32))

    assert np.isfinite(unit).all(axis=1).tolist() == [False, False, True]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bits_are_those_of_numpys_norm_and_one_division(dtype: type) -> None:
    vectors = np.random.default_rng(7).standard_normal((200, 384)).astype(dtype)
    vectors[3] = 0

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)

    assert unit_length(vectors).tobytes() == expected.tobytes()
