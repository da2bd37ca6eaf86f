import pytest

from r2med_ray.reranking.orderings import rank_scores, window_starts


@pytest.mark.parametrize(
    ("length", "starts"),
    [
        pytest.param(0, [], id="nothing to order"),
        pytest.param(1, [], id="nothing to compare"),
        pytest.param(3, [0], id="shorter than a window"),
        pytest.param(4, [0], id="one window"),
        # windows of 4 move by 2 from the end: 6..9, 4..7, 2..5, 0..3
        pytest.param(10, [6, 4, 2, 0], id="several"),
        # the windows are 5..8, 3..6, 1..4, and the head 0..3
        pytest.param(9, [5, 3, 1, 0], id="the last one begins at the head"),
    ],
)
def test_windows_go_from_the_end_to_the_head(length: int, starts: list[int]) -> None:
    assert window_starts(length, 4, 2) == starts


def test_orders_of_passes_are_fused_and_equal_sums_keep_the_first_stages_order() -> None:
    # 0 and 1 each have 1/61 + 1/62, and 2 has 2/63; 0 is before 1, as in the first stage
    assert rank_scores([[1, 0, 2], [0, 1, 2]]) == [3.0, 2.0, 1.0]
    # 2 is first twice: 2/61; 0 is second twice, 1 third twice
    assert rank_scores([[2, 0, 1], [2, 0, 1]]) == [2.0, 1.0, 3.0]
