"""Folders by path or URI, on any file system of pyarrow. No message shows the credentials of a URI.

An object store has no rename. There, a file is published by a copy that the store makes, which is whole or not there:
a stream of pyarrow that is left by an error or an interrupt still stores what it was given until then.
"""

import contextlib
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from r2med_ray.errors import ArtifactError, StoreError

T = TypeVar("T")
R = TypeVar("R")

READERS = 24
"""Requests at once. An object store takes its time for each, and pyarrow's client for S3 has 25 connections."""

OBJECT_STORES = ("s3", "gcs", "abfs")
"""File systems of pyarrow that copy at once and don't rename; a folder there is only the beginning of names."""

PARTIAL = ".partial"
"""How the name of a file ends that has not got its own name yet."""

_DEFAULTS = {
    "s3": "allow_delayed_open=true",  # a small file is one request in place of three
    "gs": "retry_limit_seconds=30",  # pyarrow's own limit is 15 minutes
    "gcs": "retry_limit_seconds=30",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, which may not be there yet.

    Args:
        uri: local path or URI, as it was given: it may hold credentials.
        filesystem: reads and writes.
        root: the folder's path in the file system.
        has_objects: whether the file system is one of `OBJECT_STORES`.
        what: what the folder is, in messages.
    """

    uri: str = field(repr=False)
    filesystem: fs.FileSystem
    root: str
    has_objects: bool
    what: str = "store"

    @property
    def shown(self) -> str:
        """Path or URI for people: without credentials."""
        return without_credentials(self.uri)

    def said(self, error: Exception) -> str:
        """Return what an error says, in one line and without credentials."""
        return line_without_credentials(str(error), self.uri)

    @contextlib.contextmanager
    def reaching(self, doing: str) -> Iterator[None]:
        """Name the place in errors of the file system.

        Raises:
            StoreError: the file system failed.
        """
        try:
            yield
        except OSError as error:
            raise StoreError(f"{self.what} {self.shown!r} {doing}: {self.said(error)}") from error

    def require_bucket(self) -> None:
        """Raise unless the bucket is there. Elsewhere than in an object store, folders are made when they are needed.

        Raises:
            StoreError: there is no such bucket, or the store can't be reached.
        """
        bucket = self.root.partition("/")[0]
        if self.has_objects and not self.is_folder(bucket):
            raise StoreError(f"{self.what} {self.shown!r}: there is no bucket {bucket!r}")

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder."""
        with self.reaching("can't be read"):
            return bool(self.filesystem.get_file_info(path).type == fs.FileType.Directory)

    def listed(self, folder: str, *, recursive: bool) -> list[fs.FileInfo]:
        """Return what is in a folder; nothing where there is no such folder."""
        selector = fs.FileSelector(folder, recursive=recursive, allow_not_found=True)
        with self.reaching("can't be listed"):
            return list(self.filesystem.get_file_info(selector))

    def read(self, path: str) -> pa.Buffer:
        """Return the bytes of a file.

        Raises:
            FileNotFoundError: there is none.
            StoreError: the file system failed.
        """
        with self.reaching("can't be read"):
            try:
                with self.filesystem.open_input_stream(path) as stream:
                    return stream.read_buffer()
            except FileNotFoundError as error:
                absent = error
        raise absent

    def open(self, path: str) -> pa.NativeFile:
        """Return a file, open to be read in any order. Errors as of `read`."""
        with self.reaching("can't be read"):
            try:
                return self.filesystem.open_input_file(path)
            except FileNotFoundError as error:
                absent = error
        raise absent

    def write(self, path: str, content: bytes | memoryview) -> None:
        """Write a file, whose folder is there. What is left by an error may be half of it.

        Raises:
            StoreError: the file system failed. On this machine the message says how much room is left.
        """
        try:
            with self.filesystem.open_output_stream(path) as stream:
                stream.write(content)
        except OSError as error:
            file, size = path.removeprefix(f"{self.root}/"), memoryview(content).nbytes
            is_here = self.filesystem.type_name == "local"
            room = f"; {free_bytes(Path(self.root)):,} bytes are free there" if is_here else ""
            raise StoreError(
                f"{self.what} {self.shown!r} can't be written to: {self.said(error)} ({file}, {size:,} bytes{room})"
            ) from error

    def make_folder(self, path: str) -> None:
        """Make a folder, where a file needs one."""
        if not self.has_objects:
            with self.reaching("can't be written to"):
                self.filesystem.create_dir(path, recursive=True)

    def publish(self, path: str, content: bytes, *, beside: str, keep_first: bool = True) -> None:
        """Write one small file, so that it is there whole or not at all.

        Args:
            path: the file.
            content: its bytes.
            beside: a folder for the file that is written first.
            keep_first: whether an object store keeps that file.
        """
        first = f"{beside}/{uuid.uuid4().hex}{PARTIAL}"
        try:
            self.write(first, content)
            self.give_name(first, path)
        except BaseException:
            self._drop(first)
            raise
        if self.has_objects and not keep_first:
            self._drop(first)

    def _drop(self, first: str) -> None:
        with contextlib.suppress(OSError):  # what can't be deleted stays until `gc`
            self.filesystem.delete_file(first)

    def give_name(self, first: str, path: str) -> None:
        """Give a whole file its name at once. On an object store it keeps its first name, too."""
        with self.reaching("can't be written to"):
            if self.has_objects:
                self.filesystem.copy_file(first, path)
            else:
                self.filesystem.move(first, path)


def free_bytes(path: Path) -> int:
    """Return how many bytes are free on the disk of a path, which need not be there yet."""
    return shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free


def open_place(uri: str, *, what: str = "store") -> Place:
    """Return the folder of a local path or a URI.

    Args:
        uri: may hold credentials, which no message shows.
        what: what the folder is, in messages.

    Raises:
        ArtifactError: the path leads through a file, or no file system has such a URI.
        StoreError: the file system can't be reached.
    """
    if not is_uri(uri):
        return Place(uri, fs.LocalFileSystem(), _local(uri, what), False, what)
    shown = f"{what} {without_credentials(uri)!r}"
    try:
        filesystem, root = fs.FileSystem.from_uri(_with_defaults(uri))
    except pa.ArrowInvalid as error:
        raise ArtifactError(
            f"{shown} is no local path or file system URI: {line_without_credentials(str(error), uri)}"
        ) from None
    except OSError as error:
        raise StoreError(f"{shown} can't be opened: {line_without_credentials(str(error), uri)}") from None
    return Place(uri, filesystem, root.rstrip("/"), filesystem.type_name in OBJECT_STORES, what)


def is_uri(text: str) -> bool:
    """Return whether a text is a URI, and no local path."""
    return "://" in text


def without_credentials(uri: str) -> str:
    """Return a URI without user, password, and whatever its query calls a key, a secret, a token or a signature."""
    scheme, found, rest = uri.partition("://")
    if not found:
        return uri
    rest = rest[len(_credentials(uri)) :].removeprefix("@")
    place, asked, query = rest.partition("?")
    kept = [part for part in query.split("&") if not _SECRET.search(part.partition("=")[0])] if asked else []
    return f"{scheme}://{place}" + (f"?{'&'.join(kept)}" if kept else "")


def line_without_credentials(text: str, uri: str) -> str:
    """Return a text in one line, in which the credentials of a URI are stars."""
    query = uri.partition("?")[2].split("&")
    secrets = [part.partition("=")[2] for part in query if _SECRET.search(part.partition("=")[0])]
    credentials = _credentials(uri)
    user, has_password, password = credentials.partition(":")
    secrets += [credentials, user, password] if has_password else []
    for form in (_with_defaults(uri), uri):
        text = text.replace(form, without_credentials(uri))
    line = " ".join(text.split())
    for secret in sorted({form for each in secrets for form in (each, unquote(each)) if form}, key=len, reverse=True):
        line = line.replace(secret, "***")
    return line


def at_once(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return what a function makes of each item, in their order; `READERS` calls wait for the store together.

    Raises:
        Exception: the first that a call raised. Calls that have not begun by then are not made.
    """
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(function, items))


_SECRET = re.compile("key|secret|token|password|sig", re.IGNORECASE)


def _credentials(uri: str) -> str:
    """Return what stands before the `@` of a URI.

    A secret may hold a slash that is not written as `%2F`. Then what looks like a port is no number, and the
    credentials go on to the last `@`.
    """
    rest = uri.partition("://")[2].partition("?")[0]
    authority = rest.partition("/")[0]
    if "@" in authority:
        return authority.rpartition("@")[0]
    port = authority.partition(":")[2]
    return rest.rpartition("@")[0] if port and not port.isdigit() else ""


def _with_defaults(uri: str) -> str:
    default = _DEFAULTS.get(uri.partition("://")[0], "")
    if not default or default.partition("=")[0] in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}{default}"


def _local(path: str, what: str) -> str:
    root = Path(path).expanduser().absolute()
    there = next(place for place in (root, *root.parents) if place.exists())
    if not there.is_dir():
        raise ArtifactError(f"{what} {path!r}: {there} is a file; expected a folder")
    return str(root)
