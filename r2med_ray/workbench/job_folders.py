"""Folders that outlast a job: Ray deletes the copy of the working folder that a submitted job runs in."""

import json
import os
from pathlib import Path

from r2med_ray.errors import ConfigError
from r2med_ray.storage.places import is_uri

SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Environment variable of a submitted job: its settings, as JSON. Ray sets it."""


def default_base() -> Path:
    """Return where stores and results go by default: here, but not into a folder that Ray deletes."""
    return Path.home() / "r2med_ray" if SUBMITTED in os.environ else Path.cwd()


def lasting(what: str, place: str | Path) -> str | Path:
    """Return a place unless Ray would delete it with the working folder of a submitted job.

    Args:
        what: the name of the option that names the place.
        place: folder or URI.

    Raises:
        ConfigError: the folder is in the working folder of a submitted job.
    """
    runtime_env = json.loads(os.environ.get(SUBMITTED, "{}")).get("runtime_env") or {}
    if is_uri(str(place)) or not runtime_env.get("working_dir"):
        return place
    folder = Path(place).expanduser().resolve()
    if folder.is_relative_to(Path.cwd().resolve()):
        raise ConfigError(
            f"{what} {str(place)!r} is in the working folder of a submitted job, which Ray deletes; name an absolute "
            f"path outside of it or a URI, or leave out `--{what}`: {default_base()} is taken then"
        )
    return place
