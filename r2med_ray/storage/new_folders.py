"""Folders that appear whole or not at all."""

import contextlib
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from r2med_ray.errors import ConfigError


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give an empty folder that becomes `folder` when the block ends well, and goes away when it doesn't.

    Raises:
        ConfigError: there is something at `folder`; raised before the block starts.
    """
    require_new(folder)
    fresh = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.partial")
    fresh.mkdir(parents=True)
    try:
        yield fresh
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def require_new(folder: Path) -> None:
    """Check that there is nothing at a folder.

    Raises:
        ConfigError: there is something.
    """
    if folder.exists():
        raise ConfigError(f"output {folder}: it exists already; name a new folder")
