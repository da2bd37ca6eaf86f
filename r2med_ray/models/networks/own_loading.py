"""Networks that code of a checkpoint loads without transformers, as NomicBERT's does.

No report says which of their weights were read. So torch is watched while it puts weights into modules: a weight that
it was not seen to put there may be a random number.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from r2med_ray.errors import DataError
from r2med_ray.models.networks.unread_tensors import joined, rebuild_unread, without_memory

if TYPE_CHECKING:
    from torch import nn


@dataclass(slots=True)
class Reading:
    """What was seen to be read while a network was loaded."""

    whole: "set[nn.Module]" = field(default_factory=set)
    """Modules of networks whose check is done."""

    tensors: "set[tuple[nn.Module, str]]" = field(default_factory=set)
    """Tensors of other modules: the module that holds it, and its name there."""

    def has(self, module: "nn.Module", name: str) -> bool:
        return module in self.whole or (module, name) in self.tensors


@contextmanager
def noted_weights(reading: Reading) -> Iterator[None]:
    """Note each tensor that `load_state_dict` gives a module in this block. safetensors calls it as well."""
    from torch import nn

    original = nn.Module.load_state_dict

    def load_state_dict(self: "nn.Module", *args: Any, **settings: Any) -> Any:
        result = original(self, *args, **settings)
        read = self.state_dict().keys() - set(result.missing_keys)
        for path, module in self.named_modules():
            names = [*module._parameters, *module._buffers]
            reading.tensors.update((module, name) for name in names if joined(path, name) in read)
        return result

    nn.Module.load_state_dict = load_state_dict  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.load_state_dict = original  # type: ignore[method-assign]


def require_proved(owner: str, loaded: "nn.Module", reading: Reading, may_lack: Sequence[str]) -> None:
    """Check the networks that transformers itself did not load.

    Args:
        owner: see `loading.load_whole`.
        loaded: what was loaded. Modules of sentence-transformers in it are taken as they are: that library reads all
            of their weights.
        reading: what was read; gets the modules of the networks that are checked here.
        may_lack: see `loading.load_whole`.

    Raises:
        DataError: a weight was not seen to be read, or a tensor has no memory or can't be rebuilt; names it.
        OwnCodeError: see `unread_tensors.rebuild_unread`.
    """
    from transformers import PreTrainedModel

    for network in list(loaded.modules()):
        is_of_library = type(network).__module__.startswith(("torch.", "sentence_transformers."))
        if is_of_library or reading.whole.issuperset(network.modules()):
            continue
        _require_weights(owner, network, reading, may_lack)
        if isinstance(network, PreTrainedModel):
            rebuild_unread(owner, network, list(_unread(network, reading)))
        reading.whole.update(network.modules())
    for path, module in loaded.named_modules():
        for name in without_memory(module):
            raise DataError(f"{owner}: the tensor {joined(path, name)!r} has no memory after its network was loaded")


def _require_weights(owner: str, network: "nn.Module", reading: Reading, may_lack: Sequence[str]) -> None:
    weights = [
        (joined(path, name), weight, reading.has(module, name))
        for path, module in network.named_modules()
        for name, weight in module._parameters.items()
        if weight is not None
    ]
    read = {id(weight) for _, weight, is_read in weights if is_read}  # one weight may have several names
    lacking = [name for name, weight, _ in weights if id(weight) not in read and not name.startswith(tuple(may_lack))]
    if lacking:
        raise DataError(
            f"{owner}: {type(network).__name__} is loaded by code of its own, which was not seen to read "
            f"{len(lacking)} of its weights from a file, e.g. {lacking[0]!r}; so nothing proves that they are the "
            f"checkpoint's"
        )


def _unread(network: "nn.Module", reading: Reading) -> Iterator[tuple[str, str]]:
    for path, module in network.named_modules():
        buffers = dict(module.named_buffers(recurse=False, remove_duplicate=False))
        for name in {**buffers, **dict.fromkeys(without_memory(module))}:
            if not reading.has(module, name):
                yield path, name
