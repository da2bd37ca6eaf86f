"""The place of a report: what may be replaced there, and how, so that it is there whole or not at all."""

import contextlib
import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from r2med_ray.errors import ConfigError

FORMAT = "r2med_ray report 1"
"""Stands in the manifest of every report; a folder without it is somebody else's."""

MANIFEST = "manifest.json"
PER_QUERY = "per_query.parquet"

_ENTRIES = {MANIFEST, PER_QUERY, "index.html", "leaderboard.md", "leaderboard.csv", "runs", "qrels", "mteb"}


def require_replaceable(output: Path) -> None:
    """Check that a report may stand here: the place is free, an empty folder, or an earlier report and nothing else.

    Raises:
        ConfigError: names what is in the way.
    """
    if not output.exists():
        return
    if not output.is_dir():
        raise ConfigError(f"output {output}: expected a folder, this is a file")
    entries = {path.name for path in output.iterdir()}
    if entries and not is_report(output):
        raise ConfigError(f"output {output}: there are other files in it, e.g. {min(entries)!r}; name a new folder")
    if foreign := entries - _ENTRIES:
        raise ConfigError(f"output {output}: {min(foreign)!r} is no part of a report and would be lost; move it away")


def is_report(folder: Path) -> bool:
    """Tell whether the manifest in a folder is that of a report."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


@contextlib.contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of `output` when the block ends well, and goes away when it doesn't.

    Raises:
        ConfigError: as `require_replaceable`, before the block starts.
    """
    require_replaceable(output)
    fresh = output.with_name(f".{output.name}.{uuid.uuid4().hex}.partial")
    fresh.mkdir(parents=True)
    try:
        yield fresh
        _exchange(fresh, output)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _exchange(fresh: Path, output: Path) -> None:
    old = fresh.with_suffix(".old")
    if output.exists():
        output.rename(old)
    try:
        fresh.rename(output)
    except OSError:
        if old.exists():
            old.rename(output)
        raise
    shutil.rmtree(old, ignore_errors=True)
