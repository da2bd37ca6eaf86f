"""What went wrong on a worker, without Ray's traceback around it and without its advice about its own settings."""

import re

from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from r2med_ray.blame import in_words
from r2med_ray.errors import R2MedError, StageError

ADVICE = re.compile(
    r"RAY_\w|DataContext|\bray (start|stop|logs)\b|environment variable|https?://|refer to the documentation|"
    r"potential root causes|OOM killer|consider provisioning|^To (adjust|disable|change|see|find)\b|ray\.init|"
    r"cluster (administrator|config)",
    re.IGNORECASE,
)
"""Sentences of Ray about what could be set in Ray, or could have happened anywhere."""


CREATION = "raised in its creation task"
"""Words of Ray about an actor that can't be built."""

OWN_ERROR = r"r2med_ray\.errors\.\w+"

ERROR_LINE = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)(?::\s|$)")
"""The first line of an error in a traceback."""

OUT_OF_MEMORY = (
    "the memory of a node ran out, so the worker was ended. Give the stage fewer actors, or more CPUs for each, in "
    "`resources`"
)


def stage_error(stage: str, unit: str, error: RayError) -> StageError:
    """Turn a worker's failure into the error of a stage, in its own words, or in what Ray says of its process."""
    cause = error.cause if isinstance(error, RayTaskError) else None
    if isinstance(cause, StageError):
        return cause
    if isinstance(cause, Exception):
        return StageError(stage, unit, in_words(cause))
    if isinstance(error, OutOfMemoryError):
        return StageError(stage, unit, OUT_OF_MEMORY)
    said = str(error)
    if CREATION in said:
        return StageError(stage, unit, re.sub(rf"^{OWN_ERROR}: ", "", _raised(said)))
    return StageError(stage, unit, _without_advice(said) or type(error).__name__)


def is_of_this_package(error: RayError) -> bool:
    """Return whether a worker raised an error of this package, when it was built or when it worked."""
    if isinstance(error, RayTaskError):
        return isinstance(error.cause, R2MedError)
    said = str(error)
    return CREATION in said and re.match(OWN_ERROR, _raised(said)) is not None


def _raised(said: str) -> str:
    """Return the error that an actor raised while it was built, out of Ray's words.

    A message of this package is meant for the user and stays whole. Of any other, the first line says what happened.
    """
    lines = said.strip().splitlines()
    own = [place for place, line in enumerate(lines) if re.match(OWN_ERROR, line)]
    if own:
        return " ".join(" ".join(lines[own[-1] :]).split())
    return next((line.strip() for line in reversed(lines) if ERROR_LINE.match(line)), lines[-1].strip())


def _without_advice(said: str) -> str:
    """Return what happened and why: the first and the last line that say something, without sentences of advice."""
    lines = []
    for line in said.splitlines():
        sentences = re.split(r"(?<=[.!?])\s+|\s+(?=\(\d\) )", line.strip())
        lines.append(" ".join(sentence for sentence in sentences if sentence and not ADVICE.search(sentence)))
    told = list(filter(None, lines))
    return told[0] if len(told) == 1 else f"{told[0].rstrip('.:')}: {told[-1]}" if told else ""
