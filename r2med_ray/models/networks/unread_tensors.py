"""Rebuilds the tensors of a network that no file holds.

A network is often built without memory, so such a tensor may be whatever was in memory. It is taken from a network of
the same class that is built on the CPU in the ordinary way.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from r2med_ray.errors import DataError
from r2med_ray.settings.own_code import own_code

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel


def rebuild_unread(
    owner: str, model: "PreTrainedModel", unread: Sequence[tuple[str, str]], dtype: "torch.dtype | None" = None
) -> None:
    """Give every tensor that no file holds the value that it gets when the network is built on the CPU.

    The network is built twice, with other random numbers each time. A tensor is rebuilt only if both give the same
    value, of the shape and dtype that the loaded tensor has, without reading weights.

    Args:
        owner: see `loading.load_whole`.
        model: a network of transformers, as `from_pretrained` returned it.
        unread: module and name of each such tensor.
        dtype: torch's default dtype while the network is built; torch's own if left out.

    Raises:
        DataError: a tensor can't be rebuilt; names it.
        OwnCodeError: the network can't be built on the CPU.
    """
    import torch

    if not unread:
        return
    built = [_built_on_cpu(owner, model, seed, dtype) for seed in (0, 1)]
    for path, name in unread:
        value, again, loaded = (getattr(network.get_submodule(path), name) for network in (*built, model))
        is_proved = not value.is_meta and torch.equal(value, again)
        if not is_proved or (value.shape, value.dtype) != (loaded.shape, loaded.dtype):
            raise DataError(
                f"{owner}: {type(model).__name__} has a tensor {joined(path, name)!r} that is in no file, "
                f"and its code doesn't give the tensor one value when it builds the network on the CPU; so the "
                f"tensor can't be trusted"
            )
        setattr(model.get_submodule(path), name, value if loaded.is_meta else value.to(loaded.device))


def left_by_transformers(model: "nn.Module") -> Iterator[tuple[str, str]]:
    """Yield module and name of each tensor that `from_pretrained` did not read from a file and that is no parameter.

    These are: buffers that no file ever holds; buffers that the network's code lets a file lack, and that were not
    read (transformers marks what it has read); and plain attributes, which stay without memory.
    """
    import re

    held = model.state_dict().keys()
    ignored = "|".join(f"(?:{pattern})" for pattern in getattr(model, "_keys_to_ignore_on_load_missing", None) or ())
    for path, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False):
            full = joined(path, name)
            may_be_lacking = ignored and re.search(ignored, full) and not getattr(buffer, "_is_hf_initialized", False)
            if full not in held or may_be_lacking:
                yield path, name
        for name in without_memory(module):
            yield path, name


def joined(path: str, name: str) -> str:
    """Return the name of a module's tensor in its network."""
    return f"{path}.{name}" if path else name


def without_memory(module: "nn.Module") -> Iterator[str]:
    """Yield the names of a module's own tensors, also of plain attributes, that have a shape and no values."""
    import torch

    tensors = {**vars(module), **module._parameters, **module._buffers}
    yield from (name for name, value in tensors.items() if isinstance(value, torch.Tensor) and value.is_meta)


def _built_on_cpu(owner: str, model: Any, seed: int, dtype: "torch.dtype | None") -> "nn.Module":
    """Return a network of the same class and configuration. Its parameters take no memory."""
    import torch
    from accelerate import init_empty_weights

    config: Any = copy.deepcopy(model.config)
    before = torch.get_default_dtype()
    building = own_code(f"{owner}: building {type(model).__name__} on the CPU")
    with building, torch.random.fork_rng(devices=[]), init_empty_weights(include_buffers=False):
        torch.default_generator.manual_seed(seed)
        torch.set_default_dtype(dtype or before)
        try:
            built: nn.Module = type(model)(config)
        finally:
            torch.set_default_dtype(before)
    return built
