"""Checks every checkpoint that is loaded: no pickle runs code, no weight is made up, and no tensor is raw memory.

transformers (5 and later) builds a network without memory, and then puts the tensors of the checkpoint's files into
it. A weight that no file holds gets random numbers. A buffer that no file holds, such as rotary frequencies with
`persistent=False`, gets whatever is in memory, unless the network's code computes the buffer in `_init_weights` too.
The library's own networks do that; code that comes with a checkpoint seldom does. So all such tensors are taken from
a network of the same class that is built on the CPU in the ordinary way.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pickle import UnpicklingError
from threading import RLock
from typing import TYPE_CHECKING, Any

from r2med_ray.errors import DataError
from r2med_ray.models.catalog.pickles import refused_pickle
from r2med_ray.settings.own_code import own_code

if TYPE_CHECKING:
    from torch import nn

_LOADING = RLock()
"""Held while checkpoints are loaded, because the check takes the place of a function of transformers."""


@contextmanager
def whole_checkpoints(owner: str, *, may_lack: Sequence[str] = (), allow_pickle: bool = False) -> Iterator[None]:
    """Check each checkpoint that transformers loads in this block, also if another library asks for it.

    Args:
        owner: the row that the checkpoint is loaded for, for errors, e.g. "reranker 'my-reranker'".
        may_lack: weights that the checkpoint's files need not hold, because nothing reads them or because they come
            from other files: beginnings of their names.
        allow_pickle: whether weights may be read that are a pickle; see `pickle_guard`.

    Raises:
        ConfigError: weights are a pickle, and pickles are not allowed; names the file.
        DataError: a weight is not in the checkpoint's files, or a tensor that no file holds can't be rebuilt; names
            the weight or the tensor.
        OwnCodeError: the network can't be built on the CPU.
    """
    from transformers import PreTrainedModel

    original = PreTrainedModel.__dict__["from_pretrained"]

    def from_pretrained(cls: Any, /, *args: Any, output_loading_info: bool = False, **settings: Any) -> Any:
        model, report = original.__func__(cls, *args, output_loading_info=True, **settings)
        missing = sorted(name for name in report["missing_keys"] if not name.startswith(tuple(may_lack)))
        if missing:
            raise DataError(
                f"{owner}: {len(missing)} weights of {type(model).__name__} are not in {model.name_or_path}, "
                f"e.g. {missing[0]!r}"
            )
        rebuild_unread(owner, model)
        return (model, report) if output_loading_info else model

    with _LOADING, pickle_guard(owner, allowed=allow_pickle):
        PreTrainedModel.from_pretrained = classmethod(from_pretrained)  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            PreTrainedModel.from_pretrained = original  # type: ignore[method-assign]


@contextmanager
def pickle_guard(owner: str, *, allowed: bool) -> Iterator[None]:
    """Watch `torch.load` in this block, through which transformers, sentence-transformers and peft read pickles.

    Args:
        owner: see `whole_checkpoints`.
        allowed: whether a pickle may be read. If so, nothing but tensors is taken from it.

    Raises:
        ConfigError: a pickle would be read, and pickles are not allowed; names the file.
        DataError: a pickle holds more than tensors.
    """
    import torch

    original = torch.load

    def load(file: Any, *args: Any, **settings: Any) -> Any:
        if not allowed:
            raise refused_pickle(owner, file)
        try:
            return original(file, *args, **(settings | {"weights_only": True}))
        except UnpicklingError as error:
            raise DataError(f"{owner}: the pickle {file} holds more than tensors, or is damaged") from error

    with _LOADING:
        torch.load = load  # type: ignore[assignment]
        try:
            yield
        finally:
            torch.load = original


def rebuild_unread(owner: str, model: "nn.Module") -> None:
    """Give every tensor that no file holds the value that it gets when the network is built on the CPU.

    The network is built twice, with other random numbers each time. A tensor is rebuilt only if both give the same
    value, of the shape and dtype that the loaded tensor has, without reading weights.

    Args:
        owner: see `whole_checkpoints`.
        model: a network of transformers, on the CPU, as `from_pretrained` returned it.

    Raises:
        DataError: a tensor can't be rebuilt; names it.
        OwnCodeError: the network can't be built on the CPU.
    """
    import torch

    unread = list(_unread(model))
    if not unread:
        return
    built = [_built_on_cpu(owner, model, seed) for seed in (0, 1)]
    for path, name in unread:
        value, again, loaded = (getattr(network.get_submodule(path), name) for network in (*built, model))
        is_proved = not value.is_meta and torch.equal(value, again)
        if not is_proved or (value.shape, value.dtype) != (loaded.shape, loaded.dtype):
            raise DataError(
                f"{owner}: {type(model).__name__} has a tensor {f'{path}.{name}'.lstrip('.')!r} that is in no file, "
                f"and its code doesn't give the tensor one value when it builds the network on the CPU; so the "
                f"tensor can't be trusted"
            )
        setattr(model.get_submodule(path), name, value)


def _unread(model: "nn.Module") -> Iterator[tuple[str, str]]:
    """Yield module and name of each tensor that was not read from a file and is no parameter.

    These are: buffers that no file ever holds; buffers that the network's code lets a file lack, and that were not
    read (transformers marks what it has read); and plain attributes, which stay without memory.
    """
    import re

    import torch

    held = model.state_dict().keys()
    ignored = "|".join(f"(?:{pattern})" for pattern in getattr(model, "_keys_to_ignore_on_load_missing", None) or ())
    for path, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False):
            full = f"{path}.{name}" if path else name
            may_be_lacking = ignored and re.search(ignored, full) and not getattr(buffer, "_is_hf_initialized", False)
            if full not in held or may_be_lacking:
                yield path, name
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and value.is_meta:
                yield path, name


def _built_on_cpu(owner: str, model: "nn.Module", seed: int) -> "nn.Module":
    """Return a network of the same class and configuration. Its parameters take no memory."""
    import torch
    from accelerate import init_empty_weights

    config: Any = copy.deepcopy(model.config)
    before = torch.get_default_dtype()
    building = own_code(f"{owner}: building {type(model).__name__} on the CPU")
    with building, torch.random.fork_rng(devices=[]), init_empty_weights(include_buffers=False):
        torch.default_generator.manual_seed(seed)
        torch.set_default_dtype(config.dtype)  # as `from_pretrained` does
        try:
            built: nn.Module = type(model)(config)
        finally:
            torch.set_default_dtype(before)
    return built
