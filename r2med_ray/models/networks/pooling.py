"""Pooling: pure functions that turn token vectors into one vector per text.

Shape letters: B texts, T tokens of the longest one, D hidden size. Masks are 1 at real tokens and 0 at padding. The
padding may be on either side.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def mean(tokens_BTD: "Tensor", mask_BT: "Tensor") -> "Tensor":
    """Return the mean over real tokens, shape (B, D)."""
    mask_BT1 = mask_BT.unsqueeze(-1).to(tokens_BTD.dtype)
    return (tokens_BTD * mask_BT1).sum(dim=1) / mask_BT1.sum(dim=1)


def cls(tokens_BTD: "Tensor", mask_BT: "Tensor") -> "Tensor":
    """Return the vector of the first real token, shape (B, D)."""
    return _at(tokens_BTD, mask_BT.argmax(dim=1))


def last(tokens_BTD: "Tensor", mask_BT: "Tensor") -> "Tensor":
    """Return the vector of the last real token, shape (B, D)."""
    return _at(tokens_BTD, mask_BT.shape[1] - 1 - mask_BT.flip(1).argmax(dim=1))


def without_prompt(mask_BT: "Tensor", prompt_tokens: int) -> "Tensor":
    """Return the mask without the first `prompt_tokens` tokens. A text without other tokens keeps its mask.

    Padding must be on the right.
    """
    rest_BT = mask_BT.clone()
    rest_BT[:, :prompt_tokens] = 0
    return rest_BT.where(rest_BT.any(dim=1, keepdim=True), mask_BT)


def _at(tokens_BTD: "Tensor", positions_B: "Tensor") -> "Tensor":
    index_B1D = positions_B[:, None, None].expand(-1, 1, tokens_BTD.shape[2])
    return tokens_BTD.gather(1, index_B1D).squeeze(1)


POOLINGS: Mapping[str, Callable[["Tensor", "Tensor"], "Tensor"]] = {"mean": mean, "cls": cls, "last": last}
