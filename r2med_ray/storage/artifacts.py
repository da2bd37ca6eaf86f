"""Artefacts: stored results of stages, whole or absent, named by everything that changes their bytes.

    <store>/<kind>/<digest>/manifest.json          written last: the artefact exists only with its manifest
    <store>/<kind>/<digest>/<attempt>/<file>       the files of the attempt that the manifest names

A killed writer leaves an attempt without a manifest. No reader sees such an attempt, and `gc` removes it. Writing the
manifest is one rename on a local disk, and one put on an object store. Every file is checked against its SHA-256 when
it is read. Nothing is ever unpickled.
"""

import contextlib
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from r2med_ray.errors import ArtifactError
from r2med_ray.storage.keys import ArtifactKey, Json, canonical_json

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored artefact: its files, and the attributes that its writer noted (counts, timings)."""

    store: "ArtifactStore"
    name: str
    inputs: Mapping[str, Json]
    attributes: Mapping[str, Json]
    files: Mapping[str, StoredFile]

    def read(self, file_name: str) -> pa.Buffer:
        """Return a file's bytes.

        Raises:
            ArtifactError: the file is missing, or a byte of it has changed.
        """
        stored = self.files.get(file_name)
        if stored is None:
            raise ArtifactError(f"artefact {self.name} has no file {file_name!r}: {', '.join(self.files)}")
        problem, content = self.store._load(stored)
        if problem is not None or content is None:
            raise ArtifactError(
                f"artefact {self.name}, file {file_name!r}: {problem}. "
                f"Remove it with `r2med artifacts gc --damaged` and run the job again."
            )
        return content

    def table(self, file_name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a Parquet file as a table. The file is checked as by `read`."""
        # Not `pq.read_table`: its scanner may hold the bytes in a thread of Arrow when Python ends, which aborts.
        return pq.ParquetFile(pa.BufferReader(self.read(file_name))).read(columns=columns)

    def path(self, file_name: str) -> str:
        """Return a file's path inside the store's file system."""
        return self.files[file_name].path

    @property
    def num_bytes(self) -> int:
        return sum(stored.num_bytes for stored in self.files.values())


@dataclass(slots=True)
class ArtifactWriter:
    """Takes the files of one artefact. `attributes` may be filled in until the writer closes."""

    filesystem: fs.FileSystem
    folder: str
    attributes: dict[str, Json] = field(default_factory=dict)
    files: dict[str, StoredFile] = field(default_factory=dict)

    def write(self, file_name: str, content: bytes | pa.Buffer) -> None:
        path = f"{self.folder}/{file_name}"
        view = memoryview(content)
        with self.filesystem.open_output_stream(path) as stream:
            stream.write(view)
        self.files[file_name] = StoredFile(path, view.nbytes, hashlib.sha256(view).hexdigest())

    def write_table(self, file_name: str, table: pa.Table) -> None:
        """Write a table as Parquet in one row group, so that its bytes depend on the table alone."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=max(1, table.num_rows), compression="zstd")
        self.write(file_name, sink.getvalue())


class ArtifactStore:
    """A folder of artefacts on a local path or any pyarrow file system URI (`s3://`, `gs://`, `hdfs://`).

    A store is cheap to build from its URI. Workers build their stores in this way.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        try:
            filesystem, root = fs.FileSystem.from_uri(uri) if "://" in uri else _local(uri)
        except (pa.ArrowInvalid, OSError) as error:
            raise ArtifactError(f"store {uri!r} is no local path or file system URI: {error}") from error
        self.filesystem: fs.FileSystem = filesystem
        self.root: str = root.rstrip("/")

    def __reduce__(self) -> tuple[type["ArtifactStore"], tuple[str]]:
        return type(self), (self.uri,)

    def require_folder(self) -> None:
        """Raise unless the folder of the store exists. The first artefact makes the folder.

        Raises:
            ArtifactError: there is no such folder.
        """
        if self.filesystem.get_file_info(self.root).type != fs.FileType.Directory:
            raise ArtifactError(f"store {self.uri!r}: there is no such folder")

    def find(self, key: ArtifactKey) -> Artifact | None:
        """Return the artefact of this key, or None if it was never finished.

        Raises:
            ArtifactError: the artefact's manifest is damaged, or belongs to other inputs.
        """
        artifact = self._open(key.name)
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
            raise ArtifactError(f"artefact {key.name} is not in the store {self.uri}")
        return artifact

    @contextlib.contextmanager
    def create(self, key: ArtifactKey) -> Iterator[ArtifactWriter]:
        """Write an artefact, which exists if the block ends well, and doesn't exist if the block raises.

        Raises:
            ArtifactError: nothing can be written to the store.
        """
        base = f"{self.root}/{key.name}"
        writer = ArtifactWriter(self.filesystem, f"{base}/{uuid.uuid4().hex}")
        try:
            self.filesystem.create_dir(writer.folder, recursive=True)
        except OSError as error:
            raise ArtifactError(f"store {self.uri!r} can't be written to: {error}") from error
        try:
            yield writer
            manifest = {
                "kind": key.kind,
                "inputs": key.inputs,
                "attributes": writer.attributes,
                "files": {
                    name: {
                        "path": stored.path.removeprefix(f"{base}/"),
                        "num_bytes": stored.num_bytes,
                        "sha256": stored.sha256,
                    }
                    for name, stored in writer.files.items()
                },
            }
            self._put(f"{base}/{MANIFEST}", json.dumps(manifest, indent=1, sort_keys=True).encode())
        except BaseException:
            self.filesystem.delete_dir(writer.folder)
            raise

    def names(self) -> list[str]:
        """Return `<kind>/<digest>` of every finished artefact, sorted."""
        selector = fs.FileSelector(self.root, recursive=True, allow_not_found=True)
        return sorted(
            info.path.removeprefix(f"{self.root}/").removesuffix(f"/{MANIFEST}")
            for info in self.filesystem.get_file_info(selector)
            if info.base_name == MANIFEST
        )

    def names_of(self, kind: str) -> list[str]:
        """Return the names of one kind's finished artefacts."""
        return [name for name in self.names() if name.startswith(f"{kind}/")]

    def all(self) -> Iterator[Artifact]:
        """Yield every finished artefact."""
        for name in self.names():
            artifact = self._open(name)
            if artifact is not None:
                yield artifact

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (artefact, what is wrong with it) for every damaged file or manifest."""
        for name in self.names():
            try:
                artifact = self._open(name)
            except ArtifactError as error:
                yield name, str(error)
                continue
            for file_name, stored in (artifact.files if artifact else {}).items():
                problem, _ = self._load(stored)
                if problem is not None:
                    yield name, f"{file_name}: {problem}"

    def remove(self, name: str) -> None:
        """Remove an artefact, manifest first, so that no reader meets half of it."""
        base = f"{self.root}/{name}"
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(f"{base}/{MANIFEST}")
        self.filesystem.delete_dir(base)

    def unfinished(self, older_than_s: float, now: float) -> list[str]:
        """Return the folders of attempts that no manifest names and that have not changed for a while.

        Args:
            older_than_s: seconds without a change.
            now: the time in seconds since the epoch.
        """
        live = {stored.path.rpartition("/")[0] for item in self._readable() for stored in item.files.values()}
        newest: dict[str, float] = {}
        selector = fs.FileSelector(self.root, recursive=True, allow_not_found=True)
        for info in self.filesystem.get_file_info(selector):
            relative = info.path.removeprefix(f"{self.root}/").split("/")
            if len(relative) < 3 or relative[2].startswith(MANIFEST):
                continue
            folder = "/".join([self.root, *relative[:3]])
            newest[folder] = max(newest.get(folder, 0.0), (info.mtime_ns or 0) / 1e9)
        return sorted(path for path, at in newest.items() if path not in live and now - at >= older_than_s)

    def _readable(self) -> Iterator[Artifact]:
        for name in self.names():
            with contextlib.suppress(ArtifactError):
                if artifact := self._open(name):
                    yield artifact

    def _open(self, name: str) -> Artifact | None:
        base = f"{self.root}/{name}"
        try:
            with self.filesystem.open_input_stream(f"{base}/{MANIFEST}") as stream:
                manifest = json.loads(stream.read())
            files = {
                file_name: StoredFile(f"{base}/{stored['path']}", stored["num_bytes"], stored["sha256"])
                for file_name, stored in manifest["files"].items()
            }
            return Artifact(self, name, manifest["inputs"], manifest["attributes"], files)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"artefact {name}: its manifest can't be read ({error!r})") from error

    def _load(self, stored: StoredFile) -> tuple[str | None, pa.Buffer | None]:
        """Return (what is wrong, None) or (None, the bytes)."""
        try:
            with self.filesystem.open_input_stream(stored.path) as stream:
                content = stream.read_buffer()
        except FileNotFoundError:
            return f"{stored.path} is missing", None
        if content.size != stored.num_bytes:
            return f"{stored.path} has {content.size} bytes, its manifest says {stored.num_bytes}", None
        digest = hashlib.sha256(content).hexdigest()
        if digest != stored.sha256:
            return f"{stored.path} has SHA-256 {digest}, its manifest says {stored.sha256}", None
        return None, content

    def _put(self, path: str, content: bytes) -> None:
        """Write one small file, so that the file is there whole or not at all."""
        local = isinstance(self.filesystem, fs.LocalFileSystem)
        target = f"{path}.{uuid.uuid4().hex}" if local else path
        with self.filesystem.open_output_stream(target) as stream:
            stream.write(content)
        if local:
            self.filesystem.move(target, path)


def _local(path: str) -> tuple[fs.FileSystem, str]:
    root = Path(path).expanduser().absolute()
    there = next(place for place in (root, *root.parents) if place.exists())
    if not there.is_dir():
        raise ArtifactError(f"store {path!r}: {there} is a file; expected a folder")
    return fs.LocalFileSystem(), str(root)
