"""What is said of a worker that failed: what happened and why, out of Ray's many lines."""

import pytest
from ray.exceptions import RayError

from r2med_ray.distributed.failures import is_of_this_package, stage_error

CREATION = """The actor died because of an error raised in its creation task, ray::MapWorker.__init__()
  File "/lib/preparing.py", line 44, in __init__
    self._maker = first_stage.load(store, computing)
"""
TWO_FAULTS = """r2med_ray.errors.ConfigError: models.yaml, encoder 'mine': `pooling` is missing
ValueError: `max_length` is 0, expected 2 or more
  Expected `pooling: mean`, `cls`, `last` or `model`.
"""
OF_TORCH = """RuntimeError: Error(s) in loading state_dict for BertModel:
\tsize mismatch for embeddings.weight: copying a param with shape [30522, 384] from checkpoint
\tsize mismatch for pooler.bias: copying a param with shape [384] from checkpoint
"""
DIED = """The actor died unexpectedly before finishing this task.
\tclass_name: ShardOwner
The actor is dead because its worker process has died. Set RAY_event_stats=1 to see more.
"""


@pytest.mark.parametrize(
    ("said", "cause", "is_ours"),
    [
        pytest.param(
            CREATION + TWO_FAULTS,
            "models.yaml, encoder 'mine': `pooling` is missing ValueError: `max_length` is 0, expected 2 or more "
            "Expected `pooling: mean`, `cls`, `last` or `model`.",
            True,
            id="all-of-a-message-for-the-user",
        ),
        pytest.param(
            CREATION + OF_TORCH,
            "RuntimeError: Error(s) in loading state_dict for BertModel:",
            False,
            id="first-line-of-any-other",
        ),
        pytest.param(
            DIED,
            "The actor died unexpectedly before finishing this task: "
            "The actor is dead because its worker process has died.",
            False,
            id="what-happened-and-why",
        ),
    ],
)
def test_an_error_is_its_first_line_with_its_cause(said: str, cause: str, is_ours: bool) -> None:
    error = RayError(said)

    assert stage_error("encode", "T, shard 3", error).cause == cause
    assert is_of_this_package(error) is is_ours
