import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.models.catalog.devices import BatchLimits
from r2med_ray.models.networks.token_budget import MIN_EFFICIENCY, pad, plan_batches

ROOMY = BatchLimits(most=1000, few=0)


def test_a_batch_ends_where_one_more_text_would_cost_more_than_the_budget():
    # 3 texts of 10 tokens cost 30. A fourth text would make it 40.
    assert plan_batches([10, 10, 10, 10, 10], BatchLimits(most=30, few=0)) == [[0, 1, 2], [3, 4]]


def test_a_batch_ends_where_padding_would_waste_more_than_a_twentieth():
    # In [100, 96], 196 of 200 tokens are text: 0.98. With 80, it would be 276 of 300: 0.92. In [80, 40], it would be
    # 120 of 160: 0.75.
    assert plan_batches([80, 100, 40, 96], ROOMY) == [[1, 3], [0], [2]]


def test_few_tokens_go_together_however_long_each_text_is():
    # 3 x 5 = 15 padded tokens are no more than `few`; a fourth text would make it 20.
    assert plan_batches([1, 5, 2, 1], BatchLimits(most=1000, few=15)) == [[1, 2, 0], [3]]


def test_a_text_longer_than_the_budget_goes_alone():
    assert plan_batches([5, 50, 5], BatchLimits(most=20, few=20)) == [[1], [0, 2]]


def test_no_texts_need_no_batches():
    assert plan_batches([], ROOMY) == []


@given(
    lengths=st.lists(st.integers(1, 300), max_size=60),
    most=st.integers(1, 2000),
    few=st.integers(0, 500),
)
def test_every_text_is_in_one_batch_that_keeps_the_limits(lengths: list[int], most: int, few: int):
    batches = plan_batches(lengths, BatchLimits(most, few))

    assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[position] for position in batch)
        real = sum(lengths[position] for position in batch)
        assert padded <= most or len(batch) == 1
        assert padded <= few or real >= MIN_EFFICIENCY * padded


def test_padding_fills_up_on_the_right():
    assert np.array_equal(pad([[7, 8], [9]], value=3), [[7, 8], [9, 3]])
    assert pad([[7]], value=0).dtype == np.int64
