"""Artefacts: stored results of stages, whole or absent, named by everything that changes their bytes.

    <store>/<kind>/<digest>/manifest.json          written last: the artefact exists only with its manifest
    <store>/<kind>/<digest>/<attempt>/<file>       the files of the attempt that the manifest names
    <store>/<kind>/<digest>.manifest.json          an artefact of texts, of which there are many: it holds them

A killed writer leaves an attempt without a manifest. No reader sees such an attempt, and `gc` removes it. A manifest
gets its place by one rename on a local disk, and by one copy inside an object store (`places`). Every file, and the
manifest itself, is checked against its SHA-256 when it is read. Nothing is ever unpickled.
"""

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime

from pyarrow import fs

from r2med_ray.errors import ArtifactError, StoreError
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifact_writer import ArtifactWriter
from r2med_ray.storage.keys import ArtifactKey, canonical_json
from r2med_ray.storage.manifests import (
    is_manifest,
    manifest_bytes,
    manifest_path,
    name_of,
    read_manifest,
)
from r2med_ray.storage.places import PARTIAL, READERS, at_once, open_place


class ArtifactStore:
    """A folder of artefacts on a local path or any pyarrow file system URI (`s3://`, `gs://`, `hdfs://`).

    A store is cheap to build from its URI. Workers build their stores in this way.
    """

    def __init__(self, uri: str) -> None:
        self.place = open_place(uri)
        self.written: set[str] = set()
        """Names of the artefacts that were written through this object."""

    def __reduce__(self) -> tuple[type["ArtifactStore"], tuple[str]]:
        return type(self), (self.uri,)

    @property
    def uri(self) -> str:
        """Where the store is. The text may hold credentials: `place.shown` doesn't."""
        return self.place.uri

    @property
    def filesystem(self) -> fs.FileSystem:
        return self.place.filesystem

    @property
    def root(self) -> str:
        """The folder's path in the file system."""
        return self.place.root

    def require_folder(self) -> None:
        """Raise unless the folder of the store exists. The first artefact makes the folder.

        Raises:
            ArtifactError: there is no such folder, or no such bucket.
            StoreError: the store can't be reached.
        """
        if not self.place.is_folder(self.root):
            self.place.require_bucket()
            raise ArtifactError(f"store {self.place.shown!r}: there is no such folder")

    def find(self, key: ArtifactKey) -> Artifact | None:
        """Return the artefact of this key, or None if it was never finished.

        Raises:
            ArtifactError: the artefact's manifest is damaged, or belongs to other inputs.
        """
        base = f"{self.root}/{key.name}"
        artifact = self._open(key.name, manifest_path(base, is_text=key.is_text))
        if artifact is None and key.is_text:  # it may be from before a text had one file
            artifact = self._open(key.name, manifest_path(base, is_text=False))
        if artifact is not None and canonical_json(artifact.inputs) != canonical_json(key.inputs):
            raise ArtifactError(f"artefact {key.name} was made from other inputs than its key says")
        return artifact

    def get(self, key: ArtifactKey) -> Artifact:
        """Return the artefact of this key.

        Raises:
            ArtifactError: the artefact is absent; or see `find`.
        """
        artifact = self.find(key)
        if artifact is None:
            raise ArtifactError(f"artefact {key.name} is not in the store {self.place.shown}")
        return artifact

    def find_all(
        self, keys: Iterable[ArtifactKey], listed: dict[str, set[str]] | None = None
    ) -> list[Artifact | None]:
        """Return what `find` returns for each key, with many requests at once, and none for what no list has.

        Args:
            keys: the keys.
            listed: kind → what `begun` returned for it. Gets what is listed now, for the next call.
        """
        keys, listed = list(keys), {} if listed is None else listed
        if len(keys) <= READERS:
            return at_once(self.find, keys)
        for kind in {key.kind for key in keys} - listed.keys():  # a list takes one request per 1,000 artefacts
            listed[kind] = self.begun(kind)
        return at_once(lambda key: self.find(key) if key.digest in listed[key.kind] else None, keys)

    @contextlib.contextmanager
    def create(self, key: ArtifactKey) -> Iterator[ArtifactWriter]:
        """Write an artefact, which exists if the block ends well, and doesn't exist if the block raises.

        Raises:
            StoreError: nothing can be written to the store.
        """
        base = f"{self.root}/{key.name}"
        folder = base.rpartition("/")[0] if key.is_text else f"{base}/{uuid.uuid4().hex}"
        writer = ArtifactWriter(self.place, folder, key.is_text)
        self.place.make_folder(folder)
        try:
            yield writer
            content = manifest_bytes(key, base, writer.attributes, writer.files)
            self.place.publish(
                manifest_path(base, is_text=key.is_text), content, beside=folder, keep_first=not key.is_text
            )
        except BaseException:
            if not key.is_text:
                with contextlib.suppress(OSError):  # a store that fails twice keeps the attempt, until `gc`
                    self.filesystem.delete_dir(folder)
            raise
        self.written.add(key.name)

    def names(self) -> list[str]:
        """Return `<kind>/<digest>` of every finished artefact, sorted."""
        return list(self._manifests())

    def names_of(self, kind: str) -> list[str]:
        """Return the names of one kind's finished artefacts, sorted. Nothing else is listed."""
        return list(self._manifests(kind))

    def dates(self, kind: str | None = None) -> dict[str, datetime | None]:
        """Return name → when it was written, if known, for all finished artefacts or those of one kind."""
        return {name: info.mtime for name, info in self._manifests(kind).items()}

    def begun(self, kind: str) -> set[str]:
        """Return the digests of one kind that are there or were begun: what is not among them is not there."""
        there = self.place.listed(f"{self.root}/{kind}", recursive=False)
        return {name_of(info.base_name) for info in there}

    def all(self, kind: str | None = None) -> Iterator[Artifact]:
        """Yield every finished artefact, or every one of a kind, in the order of their names."""
        found = at_once(self._read, self._manifests(kind).items())
        yield from (artifact for artifact in found if artifact is not None)

    def dated(self) -> Iterator[tuple[Artifact, datetime | None]]:
        """Yield every finished artefact, in the order of their names, and when it was written, if that is known."""
        manifests = self._manifests()
        found = zip(manifests.values(), at_once(self._read, manifests.items()), strict=True)
        yield from ((artifact, info.mtime) for info, artifact in found if artifact is not None)

    def readable(self) -> Iterator[tuple[str, Artifact | ArtifactError]]:
        """Yield the name of every artefact, and the artefact, or why its manifest can't be read.

        Raises:
            StoreError: the store can't be reached, which says nothing about the artefact.
        """

        def read(item: tuple[str, fs.FileInfo]) -> Artifact | ArtifactError | None:
            try:
                return self._read(item)
            except StoreError:
                raise
            except ArtifactError as error:
                return error

        manifests = self._manifests()
        for name, artifact in zip(manifests, at_once(read, manifests.items()), strict=True):
            if artifact is not None:
                yield name, artifact

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (artefact, what is wrong with it) for every damaged file or manifest."""
        for name, artifact in self.readable():
            if isinstance(artifact, ArtifactError):
                yield name, str(artifact)
                continue
            for file_name, stored in artifact.files.items():
                problem, _ = stored.load(self.place)
                if problem is not None:
                    yield name, f"{file_name}: {problem}"

    def remove(self, name: str) -> None:
        """Remove an artefact, manifest first, so that no reader meets half of it."""
        base = f"{self.root}/{name}"
        with self.place.reaching("can't be written to"):
            for is_text in (True, False):
                with contextlib.suppress(FileNotFoundError):
                    self.filesystem.delete_file(manifest_path(base, is_text=is_text))
            with contextlib.suppress(FileNotFoundError):
                self.filesystem.delete_dir(base)

    def remove_attempt(self, path: str) -> None:
        """Remove a folder or a file that `unfinished` named."""
        delete = self.filesystem.delete_file if path.endswith(PARTIAL) else self.filesystem.delete_dir
        with self.place.reaching("can't be written to"), contextlib.suppress(FileNotFoundError):
            delete(path)

    def unfinished(self, older_than_s: float, now: float) -> list[str]:
        """Return the attempts that no manifest names and that have not changed for a while: folders, or files.

        Args:
            older_than_s: seconds without a change.
            now: the time in seconds since the epoch.
        """
        whole = [item for _, item in self.readable() if isinstance(item, Artifact)]
        live = {stored.path.rpartition("/")[0] for item in whole for stored in item.files.values()}
        newest: dict[str, float] = {}
        for info in self.place.listed(self.root, recursive=True):
            relative = info.path.removeprefix(f"{self.root}/").split("/")
            if is_manifest(relative[-1]) or not (len(relative) > 2 or relative[-1].endswith(PARTIAL)):
                continue
            attempt = "/".join([self.root, *relative[:3]])
            newest[attempt] = max(newest.get(attempt, 0.0), (info.mtime_ns or 0) / 1e9)
        return sorted(path for path, at in newest.items() if path not in live and now - at >= older_than_s)

    def _manifests(self, kind: str | None = None) -> dict[str, fs.FileInfo]:
        """Return name → the file of the manifest, for all finished artefacts or those of one kind, sorted by name."""
        there = self.place.listed(f"{self.root}/{kind}" if kind else self.root, recursive=True)
        manifests = [info for info in there if is_manifest(info.base_name)]
        named = {name_of(info.path.removeprefix(f"{self.root}/")): info for info in manifests}
        return dict(sorted(named.items()))

    def _read(self, named: tuple[str, fs.FileInfo]) -> Artifact | None:
        name, info = named
        return self._open(name, info.path)

    def _open(self, name: str, path: str) -> Artifact | None:
        """Return the artefact of a manifest, or None if it is gone."""
        try:
            content = self.place.read(path).to_pybytes()
        except FileNotFoundError:
            return None
        manifest = read_manifest(name, path, content)
        return Artifact(self, name, manifest.inputs, manifest.attributes, manifest.files)
