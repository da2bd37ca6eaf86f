"""A blend of what a reranker and what the first stage say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.reranking.blending import Blend, Scale

FINITE = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        # 0.6 × (0.5, 0.9, 0.5) + 0.4 × (3, 2, 1) = 1.5, 1.34, 0.7
        ("none", [3.0, 2.0, 1.0]),
        # 0.6 × (0, 1, 0) + 0.4 × (1, 0.5, 0) = 0.4, 0.8, 0
        ("minmax", [2.0, 3.0, 1.0]),
        # −0.6 ln(3, 2, 3) − 0.4 ln(2, 3, 4) = −0.936, −0.855, −1.214; the two values 0.5 have rank 2
        ("log-rank", [2.0, 3.0, 1.0]),
    ],
)
def test_both_sides_are_weighted_after_they_are_scaled(scale: Scale, expected: list[float]) -> None:
    assert -0.6 * math.log(3) - 0.4 * math.log(2) == pytest.approx(-0.936, abs=5e-4)
    blend = Blend(reranker=0.6, first_stage=0.4, scale=scale)

    assert blend.scores([0.5, 0.9, 0.5], [3.0, 2.0, 1.0]) == expected


def test_the_first_stages_order_decides_between_equal_sums() -> None:
    assert Blend(reranker=1, first_stage=0).scores([0.5, 0.7, 0.5], [0.1, 0.1, 0.1]) == [2.0, 3.0, 1.0]


@given(
    pairs=st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=20),
    scale=st.sampled_from(["none", "minmax", "log-rank"]),
    weights=st.tuples(st.floats(0, 10), st.floats(0, 10)),
)
def test_whatever_is_blended_every_candidate_has_a_rank_of_its_own(
    pairs: list[tuple[float, float]], scale: Scale, weights: tuple[float, float]
) -> None:
    blend = Blend(reranker=weights[0], first_stage=weights[1], scale=scale)
    scores = blend.scores(*zip(*pairs, strict=True))

    assert sorted(scores) == [*range(1, len(pairs) + 1)]
