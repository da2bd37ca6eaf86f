"""The last layer of a network that scores, computed in float32 whatever the network's dtype is.

In half precision, different candidates get equal logits: near 8.5, two neighbouring numbers are 1/16 apart in
bfloat16 and 1/128 in float16. The states before the last layer differ nevertheless, so it is enough to multiply them
in float32.

Shape letters: B texts of a micro-batch, T tokens of the longest one, D hidden size, C classes, V vocabulary entries.
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.devices import Dtype
from r2med_ray.models.networks.pooling import last

if TYPE_CHECKING:
    from torch import Tensor, nn


_NOT_ALONE = (
    "the last layer of its network can't be computed in float32 while the others are {}; give `dtype: float32`"
)


def last_layer(network: "nn.Module", width: int, dtype: Dtype, owner: str) -> "nn.Linear | None":
    """Return the last linear layer of a network that returns `width` numbers.

    Args:
        network: any network.
        width: the number of classes, or of vocabulary entries.
        dtype: the network's dtype. A float32 network may do without such a layer; the result is then None.
        owner: the row of the network, for errors, e.g. "reranker 'my-reranker'".

    Raises:
        ConfigError: the network has no such layer, and isn't float32.
    """
    from torch import nn

    found = [layer for layer in network.modules() if isinstance(layer, nn.Linear) and layer.out_features == width]
    if not found and dtype != "float32":
        raise ConfigError(f"{owner}: {_NOT_ALONE.format(dtype)}")
    return found[-1] if found else None


def multiply_in_float32(layer: "nn.Linear") -> None:
    """Let a linear layer return float32. Its weights keep their dtype, since another layer may share them."""
    layer.forward = partial(_product, layer)  # type: ignore[method-assign]


def _product(layer: "nn.Linear", states: "Tensor") -> "Tensor":
    from torch.nn.functional import linear

    return linear(states.float(), layer.weight.float(), None if layer.bias is None else layer.bias.float())


class ClassifierHead:
    """The last layer of a sequence classifier, in float32.

    The classifiers of causal language models in transformers compute the logits of every token, and then look for the
    last token that isn't the padding token of `config.json`. That is another token than the last one of the text if
    texts are padded with another token, or if a text holds the padding token. So each position gets the logits of the
    last real token by the mask, whichever position the classifier looks at.

    Args:
        model: a sequence classifier of transformers.
        layer: its last layer, which this object takes over.
        owner: see `last_layer`.
    """

    def __init__(self, model: Any, layer: "nn.Linear", owner: str) -> None:
        # Another library's classifier may choose its token in another way.
        self._picks_last = type(model).__module__.startswith("transformers.") and not model.config.is_encoder_decoder
        self._layer = layer
        self._owner = owner
        self._pass = threading.local()  # of each thread: the mask of the texts that it reads
        layer.forward = self._logits  # type: ignore[method-assign, assignment]

    def read(
        self, logits: Callable[[Mapping[str, "Tensor"]], "Tensor"], features: Mapping[str, "Tensor"]
    ) -> "Tensor":
        """Return float32 logits of shape (B, C), or (B,) for one class.

        Args:
            logits: the classifier's forward pass.
            features: the micro-batch.

        Raises:
            ConfigError: the layer isn't the last one, so the logits aren't float32.
        """
        import torch

        self._pass.mask_BT = features["attention_mask"]
        of_batch = logits(features)
        if of_batch.dtype != torch.float32:
            raise ConfigError(f"{self._owner}: {_NOT_ALONE.format(str(of_batch.dtype).removeprefix('torch.'))}")
        return of_batch

    def _logits(self, states: "Tensor") -> "Tensor":
        """Return float32 of shape (B, C) for states of shape (B, D), and (B, T, C) for (B, T, D)."""
        if states.ndim < 3 or not self._picks_last:
            return _product(self._layer, states)
        logits_BC = _product(self._layer, last(states, self._pass.mask_BT))
        return logits_BC.unsqueeze(1).expand(-1, states.shape[1], -1)
