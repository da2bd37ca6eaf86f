"""Checks every checkpoint that is loaded: no pickle runs code, no weight is made up, and no tensor is raw memory.

transformers (5 and later) builds a network without memory, and then puts the tensors of the checkpoint's files into
it. A weight that no file holds gets random numbers. A buffer that no file holds, such as rotary frequencies with
`persistent=False`, gets whatever is in memory, unless the network's code computes the buffer in `_init_weights` too.
The library's own networks do that; code that comes with a checkpoint seldom does. So all such tensors are rebuilt
(`unread_tensors`). Code that comes with a checkpoint may also load it without the library; `own_loading` watches it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pickle import UnpicklingError
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from r2med_ray.errors import DataError
from r2med_ray.models.catalog.pickles import refused_pickle
from r2med_ray.models.networks.own_loading import Reading, noted_weights, require_proved
from r2med_ray.models.networks.unread_tensors import left_by_transformers, rebuild_unread

if TYPE_CHECKING:
    from torch import nn

N = TypeVar("N", bound="nn.Module")

_LOADING = RLock()
"""Held while checkpoints are loaded, because the check takes the place of functions of other libraries."""


def load_whole(owner: str, load: Callable[[], N], *, may_lack: Sequence[str] = (), allow_pickle: bool = False) -> N:
    """Load a network, and check each checkpoint that is loaded for it, whatever library or code loads it.

    Args:
        owner: the row that the checkpoint is loaded for, for errors, e.g. "reranker 'my-reranker'".
        load: returns the network, on any device.
        may_lack: weights that the checkpoint's files need not hold, because nothing reads them or because they come
            from other files: beginnings of their names.
        allow_pickle: whether weights may be read that are a pickle; see `pickle_guard`.

    Raises:
        ConfigError: weights are a pickle, and pickles are not allowed; names the file.
        DataError: a weight is not in the checkpoint's files, or was not seen to be read from them, or a tensor that
            no file holds can't be rebuilt; names the weight or the tensor.
        OwnCodeError: the network can't be built on the CPU.
    """
    reading = Reading()
    with _LOADING, pickle_guard(owner, allowed=allow_pickle):
        with _checked_loads(owner, may_lack, reading), noted_weights(reading):
            network = load()
        require_proved(owner, network, reading, may_lack)
    return network


@contextmanager
def _checked_loads(owner: str, may_lack: Sequence[str], reading: Reading) -> Iterator[None]:
    """Check each network that transformers itself loads in this block."""
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
        unread = list(left_by_transformers(model))
        rebuild_unread(owner, model, unread, model.config.dtype)  # `from_pretrained` builds a network in this dtype
        reading.whole.update(model.modules())
        return (model, report) if output_loading_info else model

    PreTrainedModel.from_pretrained = classmethod(from_pretrained)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        PreTrainedModel.from_pretrained = original  # type: ignore[method-assign]


@contextmanager
def pickle_guard(owner: str, *, allowed: bool) -> Iterator[None]:
    """Watch `torch.load` in this block, through which transformers, sentence-transformers and peft read pickles.

    Args:
        owner: see `load_whole`.
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
