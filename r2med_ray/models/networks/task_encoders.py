"""One model in memory that encodes for every task, with the prompts of the task."""

from collections.abc import Callable

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

    Raises:
        ConfigError, DataError: the checkpoint isn't there or doesn't fit its row, or the row's class is no encoder.
    """

    def __init__(self, row: EncoderRow, *, device: str, token_budget: int) -> None:
        self._row = row
        self._with_prompts = _load(row, device, token_budget)

    def for_task(self, task: str) -> Encoder:
        """Return the encoder with a task's prompts."""
        return self._with_prompts(prompts_for(self._row, task))


def _load(row: EncoderRow, device: str, token_budget: int) -> Callable[[Prompts], Encoder]:
    """Return a function that makes the encoder of a row for any prompts."""
    if row.class_:
        return OwnEncoders(row, device=device, token_budget=token_budget).with_prompts
    load = load_remote_code if row.pooling == "encode" else load_encoder
    return load(row, device, row.resolved_dtype(device), token_budget=token_budget)
