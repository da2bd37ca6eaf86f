"""The folder of a report: what may be replaced there, and how a report appears whole or not at all."""

import contextlib
import json
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from r2med_ray.errors import ConfigError

FORMAT = "r2med_ray report 1"
"""The `format` entry in the manifest of every report. A folder without it is not a report of this package."""

MANIFEST = "manifest.json"
PER_QUERY = "per_query.parquet"

ENTRIES = {
    MANIFEST,
    PER_QUERY,
    "index.html",
    "leaderboard.md",
    "leaderboard.csv",
    "leakage.csv",
    "queries",
    "runs",
    "qrels",
    "mteb",
}


def require_replaceable(output: Path, name: str) -> None:
    """Check that the report of a benchmark may be written here.

    The folder may be absent, be empty, or hold an earlier report of the same benchmark and nothing else.

    Args:
        output: the folder of the report.
        name: the name of the benchmark.

    Raises:
        ConfigError: something is in the way. The message names it.
    """
    output = output.expanduser().absolute()
    require_writable("output", output.parent)
    if not output.exists():
        return
    if not output.is_dir():
        raise ConfigError(f"output {output}: this is a file; expected a folder")
    if output.samefile(Path.cwd()):
        raise ConfigError(
            f"output {output}: this is the working folder, which the report would replace; run the command in "
            "another folder"
        )
    entries = {path.name for path in output.iterdir()}
    manifest = _manifest(output)
    if entries and manifest is None:
        raise ConfigError(f"output {output}: there are other files in it, e.g. {min(entries)!r}; name a new folder")
    if manifest and manifest.get("name") != name:
        raise ConfigError(
            f"output {output}: it holds the report of benchmark {manifest.get('name')!r}, which that of {name!r} "
            "would replace; name another folder with `--output`"
        )
    if foreign := entries - ENTRIES:
        raise ConfigError(f"output {output}: {min(foreign)!r} is no part of a report and would be lost; move it away")


def require_writable(what: str, folder: Path) -> None:
    """Check that a folder can be made, or can be written to if it exists. The check makes something for a moment.

    Raises:
        ConfigError: a file is in the way, or writing there is not allowed.
    """
    folder = folder.expanduser().absolute()
    try:
        there = next(place for place in (folder, *folder.parents) if place.exists())
        if not there.is_dir():
            raise ConfigError(f"{what} {folder}: {there} is a file; expected a folder")
        tempfile.TemporaryDirectory(prefix=".r2med-", dir=there).cleanup()
    except OSError as error:
        raise ConfigError(f"{what} {folder}: can't be written to ({error.strerror}); name another folder") from error


def is_report(folder: Path) -> bool:
    """Return whether the manifest in a folder is that of a report."""
    return _manifest(folder) is not None


def _manifest(folder: Path) -> Mapping[str, Any] | None:
    """Return the manifest of a report; None if the folder has no manifest or one that this package didn't write."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.get("format") == FORMAT else None


@contextlib.contextmanager
def replacing(output: Path, name: str) -> Iterator[Path]:
    """Yield an empty folder. It replaces `output` if the block ends without an error, and is removed otherwise.

    Args:
        output: the folder of a report.
        name: the name of the benchmark.

    Raises:
        ConfigError: see `require_replaceable`. It is raised before the block starts.
    """
    require_replaceable(output, name)
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
