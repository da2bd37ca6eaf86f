import pytest
import torch

from r2med_ray.models.networks.pooling import cls, last, mean, without_prompt

# Two texts of two and three tokens, D = 2. Padding holds 99, which must never be in a result.
TOKENS = torch.tensor(
    [
        [[1.0, 2.0], [3.0, 4.0], [99.0, 99.0]],
        [[5.0, 6.0], [7.0, 8.0], [9.0, 1.0]],
    ]
)
RIGHT = torch.tensor([[1, 1, 0], [1, 1, 1]])
LEFT_TOKENS = TOKENS.roll(shifts=1, dims=1)  # the padding of the first text is now at the front
LEFT = torch.tensor([[0, 1, 1], [1, 1, 1]])


def test_mean_is_over_real_tokens():
    # (1+3)/2 = 2, (2+4)/2 = 3; (5+7+9)/3 = 7, (6+8+1)/3 = 5
    assert mean(TOKENS, RIGHT).tolist() == [[2.0, 3.0], [7.0, 5.0]]


def test_cls_is_the_first_real_token():
    assert cls(TOKENS, RIGHT).tolist() == [[1.0, 2.0], [5.0, 6.0]]
    assert cls(LEFT_TOKENS, LEFT)[0].tolist() == [1.0, 2.0]


def test_last_is_the_last_real_token():
    assert last(TOKENS, RIGHT).tolist() == [[3.0, 4.0], [9.0, 1.0]]
    assert last(LEFT_TOKENS, LEFT)[0].tolist() == [3.0, 4.0]


@pytest.mark.parametrize("pool", [mean, cls, last])
def test_one_token_is_its_own_pool(pool: object):
    assert pool(TOKENS[:1, :1], RIGHT[:1, :1]).tolist() == [[1.0, 2.0]]  # type: ignore[operator]


def test_a_prompt_is_left_out_unless_nothing_else_is_there():
    masks = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])

    # The prompt has two tokens. The first text has only these.
    assert without_prompt(masks, 2).tolist() == [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert without_prompt(masks, 0).tolist() == masks.tolist()
