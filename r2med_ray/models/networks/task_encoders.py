"""One model in memory that encodes for every task, with the prompts of the task."""

from collections.abc import Callable

from r2med_ray.models.catalog.devices import Share
from r2med_ray.models.catalog.encoders import EncoderRow, Prompts, prompts_for
from r2med_ray.models.networks.encoders import load_encoder
from r2med_ray.models.networks.own_models import OwnEncoders
from r2med_ray.models.networks.remote_code import load_remote_code
from r2med_ray.protocols import Encoder


class TaskEncoders:
    """The model of one row, which makes the encoders of all tasks.

    Args:
        row: a row of the catalogue.
        device: `cpu`, `cuda`, ...
        token_budget: most padded tokens of a forward pass.
        gpus: GPUs that this process may use, for `engine: vllm`; a part of one if several processes share it.
        kv_cache_gib: GiB of memory for keys and values on a CPU, for `engine: vllm`.

    Raises:
        ConfigError, DataError: the checkpoint isn't there or doesn't fit its row, or the row's class is no encoder.
    """

    def __init__(
        self, row: EncoderRow, *, device: str, token_budget: int, gpus: float = 1.0, kv_cache_gib: int = 4
    ) -> None:
        self._row = row
        self._with_prompts = _load(row, device, Share(gpus, token_budget, kv_cache_gib))

    def for_task(self, task: str) -> Encoder:
        """Return the encoder with a task's prompts."""
        return self._with_prompts(prompts_for(self._row, task))


def _load(row: EncoderRow, device: str, share: Share) -> Callable[[Prompts], Encoder]:
    """Return a function that makes the encoder of a row for any prompts."""
    if row.class_:
        return OwnEncoders(row, device=device, token_budget=share.token_budget).with_prompts
    dtype = row.resolved_dtype(device)
    if row.pooling == "encode":
        return load_remote_code(row, device, dtype, token_budget=share.token_budget)
    return load_encoder(row, device, dtype, share=share)
