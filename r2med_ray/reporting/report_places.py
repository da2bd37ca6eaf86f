"""Where a report is kept: a local folder, or a folder by URI, which is written from a local one and read into one.

A report in an object store has its manifest last: without its manifest it is no report. A file of its own says
meanwhile whose report is on its way, so that the same benchmark may replace what a killed upload left.
"""

import json
import tempfile
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path

from pyarrow import fs

from r2med_ray.errors import ArtifactError, ConfigError, DataError
from r2med_ray.reporting.output_folder import ENTRIES, FORMAT, MANIFEST, replacing, require_replaceable
from r2med_ray.storage.places import Place, at_once, is_uri, open_place

COMING = "r2med-upload.json"
"""The file that is in the folder as long as the report in it isn't whole."""


def require_replaceable_at(output: str | Path, name: str) -> None:
    """Check that the report of a benchmark may be written to a folder or a URI; see `require_replaceable`.

    At a URI, the check writes a small file for a moment.

    Raises:
        ConfigError: something is in the way, there is no such bucket, or it can't be reached.
    """
    if not is_uri(str(output)):
        require_replaceable(Path(output), name)
        return
    place = _place(str(output))
    shown = f"output {place.shown}"
    with _as_config_error():
        entries = {info.base_name for info in place.listed(place.root, recursive=False)}
        owner = _owner(place, entries, name)
    if entries and owner is None:
        raise ConfigError(f"{shown}: there are other files in it, e.g. {min(entries)!r}; name a new folder")
    if entries and owner != name:
        raise ConfigError(
            f"{shown}: it holds the report of benchmark {owner!r}, which that of {name!r} would replace; "
            "name another folder with `--output`"
        )
    if foreign := entries - ENTRIES - {COMING}:
        raise ConfigError(f"{shown}: {min(foreign)!r} is no part of a report and would be lost; move it away")
    if COMING not in entries:
        _try_to_write(place, name)


@contextmanager
def replacing_at(output: str | Path, name: str) -> Iterator[Path]:
    """Yield an empty local folder. It replaces what is at `output` if the block ends without an error.

    Raises:
        ConfigError: see `require_replaceable_at`. It is raised before the block starts.
        StoreError: the report can't be written to the URI.
    """
    if not is_uri(str(output)):
        with replacing(Path(output), name) as folder:
            yield folder
        return
    require_replaceable_at(output, name)
    place = _place(str(output))
    with tempfile.TemporaryDirectory(prefix="r2med-report-") as local:
        folder = Path(local)
        yield folder
        _upload(folder, place, name)


@contextmanager
def local_copy(output: str | Path) -> Iterator[Path]:
    """Yield a local folder with the report at a folder or a URI.

    Raises:
        DataError: there is no whole report at the URI.
        StoreError: the URI can't be read.
    """
    if not is_uri(str(output)):
        yield Path(output)
        return
    place = _place(str(output))
    infos = [info for info in place.listed(place.root, recursive=True) if info.type == fs.FileType.File]
    if not any(info.path == f"{place.root}/{MANIFEST}" for info in infos):
        raise DataError(f"{place.shown} is no report: expected a {MANIFEST} that r2med wrote")
    with tempfile.TemporaryDirectory(prefix="r2med-report-") as local:

        def fetch(info: fs.FileInfo) -> None:
            path = Path(local) / info.path.removeprefix(f"{place.root}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(place.read(info.path))

        at_once(fetch, infos)
        yield Path(local)


def shown_place(output: str | Path) -> str:
    """Return the place of a report for people: an absolute path, or a URI without credentials."""
    return _place(str(output)).shown if is_uri(str(output)) else str(Path(output).expanduser().resolve())


def _upload(folder: Path, place: Place, name: str) -> None:
    """Replace what is at a place, so that there is a manifest only while all that it names is there."""
    coming, manifest = f"{place.root}/{COMING}", f"{place.root}/{MANIFEST}"
    _announce(place, name)
    there = sorted(place.listed(place.root, recursive=False), key=lambda info: info.base_name != MANIFEST)
    with place.reaching("can't be written to"):
        for info in there:  # the manifest goes first
            with suppress(FileNotFoundError):  # on an object store a folder need not be an object
                if info.type == fs.FileType.Directory:
                    place.filesystem.delete_dir(info.path)
                elif info.path != coming:
                    place.filesystem.delete_file(info.path)

    def send(path: Path) -> None:
        target = f"{place.root}/{path.relative_to(folder).as_posix()}"
        place.make_folder(target.rpartition("/")[0])
        place.write(target, path.read_bytes())

    at_once(send, [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / MANIFEST])
    # What is copied to the manifest's place is the file that said that the report was on its way.
    place.write(coming, (folder / MANIFEST).read_bytes())
    place.give_name(coming, manifest)
    if place.has_objects:
        with place.reaching("can't be written to"):
            place.filesystem.delete_file(coming)


def _place(uri: str) -> Place:
    with _as_config_error():
        place = open_place(uri, what="output")
        place.require_bucket()
        return place


@contextmanager
def _as_config_error() -> Iterator[None]:
    try:
        yield
    except ArtifactError as error:
        raise ConfigError(str(error)) from error


def _announce(place: Place, name: str) -> None:
    place.make_folder(place.root)
    place.write(f"{place.root}/{COMING}", json.dumps({"format": FORMAT, "name": name}).encode())


def _try_to_write(place: Place, name: str) -> None:
    with _as_config_error():
        _announce(place, name)
        with place.reaching("can't be written to"):
            place.filesystem.delete_file(f"{place.root}/{COMING}")


def _owner(place: Place, entries: Set[str], name: str) -> str | None:
    """Return whose report a folder holds; None if it holds none. What a killed upload left may be anybody's."""
    if MANIFEST in entries:
        return _named_in(place, MANIFEST)
    return (_named_in(place, COMING) or name) if COMING in entries else None


def _named_in(place: Place, file: str) -> str | None:
    """Return which benchmark's report a folder says it holds; None if the file isn't one of a report."""
    try:
        content = json.loads(place.read(f"{place.root}/{file}").to_pybytes())
    except (FileNotFoundError, ValueError):
        return None
    is_ours = isinstance(content, dict) and content.get("format") == FORMAT
    return content.get("name") if is_ours else None
