"""What went wrong on a worker, without Ray's traceback around it."""

from ray.exceptions import RayError, RayTaskError

from r2med_ray.errors import R2MedError, StageError


def stage_error(stage: str, unit: str, error: RayError) -> StageError:
    """Turn a worker's failure into the error of a stage, in its own words, or in the last line of what Ray says."""
    cause = error.cause if isinstance(error, RayTaskError) else None
    if isinstance(cause, StageError):
        return cause
    if isinstance(cause, R2MedError):
        return StageError(stage, unit, str(cause))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return StageError(stage, unit, repr(cause) if cause is not None else lines[-1] if lines else repr(error))
