"""One model in memory, with the prompts of whichever task is asked for."""

from collections.abc import Callable

from r2med_ray.models.catalog.rows import EncoderRow, Prompts, prompts_for
from r2med_ray.models.networks.encoders import load_encoder
from r2med_ray.models.networks.remote_code import load_remote_code
from r2med_ray.protocols import Encoder


class TaskEncoders:
    """The weights of one row, shared by the encoders of all tasks.

    Args:
        row: from the catalogue.
        device: `cpu`, `cuda`, ...
        token_budget: most padded tokens of a forward pass.

    Raises:
        ConfigError, DataError: the checkpoint isn't there or doesn't fit its row.
    """

    def __init__(self, row: EncoderRow, *, device: str, token_budget: int) -> None:
        load = load_remote_code if row.pooling == "encode" else load_encoder
        self._row = row
        self._with_prompts: Callable[[Prompts], Encoder] = load(
            row, device, row.resolved_dtype(device), token_budget=token_budget
        )

    def for_task(self, task: str) -> Encoder:
        """Return the encoder with a task's prompts."""
        return self._with_prompts(prompts_for(self._row, task))
