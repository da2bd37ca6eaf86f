"""Has one function run on a worker of a pool, for what depends on the machine that works and not on the driver's."""

from collections.abc import Callable
from typing import Any, TypeVar

import ray

from r2med_ray.distributed.failures import stage_error
from r2med_ray.errors import StageError
from r2med_ray.settings.pools import Pool

T = TypeVar("T")


def on_a_worker(stage: str, unit: str, work: Callable[[], T], pool: Pool, *, timeout_s: int) -> T:
    """Return what a function returns on a machine that has room for one actor of a pool.

    Args:
        stage: name of the arrow, for errors.
        unit: what it is done for, for errors.
        work: the function.
        pool: what is reserved.
        timeout_s: after so many seconds it has failed.

    Raises:
        StageError: the function raised, its process ended twice, or nothing came back in time.
    """
    task: Any = ray.remote(num_cpus=pool.cpus, num_gpus=pool.gpus, max_retries=1)(_called)
    reference = task.remote(work)
    try:
        done: T = ray.get(reference, timeout=timeout_s)
    except ray.exceptions.GetTimeoutError as error:
        ray.cancel(reference, force=True)
        cause = f"it took more than {timeout_s} s, the limit `resources.no_progress_timeout_s`"
        raise StageError(stage, unit, cause) from error
    except ray.exceptions.RayError as error:
        raise stage_error(stage, unit, error) from error
    return done


def _called(work: Callable[[], T]) -> T:
    return work()
