"""One model in memory, with the prompts of whichever task is asked for."""

from r2med_ray.models.encoders import TransformerEncoder
from r2med_ray.models.networks import load_network
from r2med_ray.models.rows import EncoderRow, prompts_for
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
        self._row = row
        self._network = load_network(row, device, row.resolved_dtype(device))
        self._token_budget = token_budget

    def for_task(self, task: str) -> Encoder:
        """Return the encoder with a task's prompts."""
        return TransformerEncoder(self._row, self._network, prompts_for(self._row, task), self._token_budget)
