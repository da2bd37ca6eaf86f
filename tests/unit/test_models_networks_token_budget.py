import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.errors import DataError
from r2med_ray.models.catalog.devices import BatchLimits
from r2med_ray.models.networks.token_budget import MIN_EFFICIENCY, pad, plan_batches, run_batches

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


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(torch.OutOfMemoryError("CUDA out of memory"), id="gpu"),
        pytest.param(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate"), id="cpu"),
    ],
)
def test_a_batch_that_does_not_fit_is_halved_until_it_does(failure: Exception):
    done: list[list[int]] = []

    def forward(batch: list[int]):
        if len(batch) > 2:
            raise failure
        done.append(batch)

    run_batches([[0, 1, 2, 3, 4], [5]], forward)

    # [0..4] fails and is split into [0, 1] and [2, 3, 4]. [2, 3, 4] fails and is split into [2] and [3, 4].
    assert done == [[0, 1], [2], [3, 4], [5]]


def test_a_single_text_that_does_not_fit_is_named():
    def forward(batch: list[int]):
        if 7 in batch:
            raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(DataError, match="position 7"):
        run_batches([[6, 7]], forward)


def test_another_failure_is_no_reason_to_try_again():
    calls: list[list[int]] = []

    def forward(batch: list[int]):
        calls.append(batch)
        raise RuntimeError("CUDA error: device-side assert triggered")

    with pytest.raises(RuntimeError, match="device-side assert"):
        run_batches([[0, 1]], forward)
    assert calls == [[0, 1]]
